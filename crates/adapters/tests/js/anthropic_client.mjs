// Holds the scripted model's messages against Anthropic's own client: it must accept what is sent and refuse what should be refused.
// Started by ../model_vendor_client.rs with the server's address; the script that is served stands there.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { run } from "./run.mjs";

const baseURL = process.argv[2];
const client = new Anthropic({ baseURL, apiKey: "sk-ant-vendor-1", maxRetries: 0, timeout: 20_000 });
const TEXT = "  <file path=\"a.ts\">\n\tlet a = \"ü🚀\";\n</file>\n";
const PIXEL = Buffer.from("a picture").toString("base64");

const ask = (content, more = {}) => ({ model: "scripted", max_tokens: 64, messages: [{ role: "user", content }], ...more });

await run({
  async "a stream is iterated: blocks opened, filled and closed, thinking first, text exact"() {
    const events = [];
    for await (const event of await client.messages.create(ask("plain", { stream: true }))) events.push(event);
    const types = events.map((event) => event.type);
    assert.deepEqual([types[0], types.at(-2), types.at(-1)], ["message_start", "message_delta", "message_stop"]);
    const said = (kind, field) => events.map((event) => (event.delta?.type === kind ? event.delta[field] : "")).join("");
    assert.equal(said("text_delta", "text"), TEXT);
    assert.equal(said("thinking_delta", "thinking"), "Hm.\n");
    assert.equal(events.at(-2).delta.stop_reason, "max_tokens");
    assert.equal(types.filter((type) => type === "content_block_start").length, 2);
    assert.equal(types.filter((type) => type === "content_block_stop").length, 2);
  },
  async "the client's own accumulator accepts the stream"() {
    const message = await client.messages.stream(ask("plain")).finalMessage();
    assert.deepEqual(message.content.map((block) => block.type), ["thinking", "text"]);
    assert.equal(message.content[1].text, TEXT);
    const { input_tokens, cache_read_input_tokens, output_tokens } = message.usage;
    assert.deepEqual([input_tokens, cache_read_input_tokens, output_tokens], [4, 3, 5]);
  },
  async "a whole answer says the same"() {
    const message = await client.messages.create(ask("plain"));
    assert.deepEqual([message.type, message.role, message.stop_reason], ["message", "assistant", "max_tokens"]);
    assert.equal(message.content[1].text, TEXT);
    assert.match(message._request_id, /^req_\d+$/);
  },
  async "instructions, marks and images are taken"() {
    const mark = { cache_control: { type: "ephemeral" } };
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
    const content = [image, { type: "text", text: "well", ...mark }];
    const system = [{ type: "text", text: "Be brief.", ...mark }];
    const message = await client.messages.create(ask(content, { system }));
    assert.equal(message.content[0].text, "well");
    const five = Array.from({ length: 5 }, () => ({ type: "text", text: "well", ...mark }));
    await assert.rejects(client.messages.create(ask(five)), /A maximum of 4 blocks/);
  },
  async "tokens are counted and models described"() {
    const { max_tokens: _, ...counted } = ask("12345678");
    assert.equal((await client.messages.countTokens(counted)).input_tokens, 2);
    assert.equal((await client.models.retrieve("scripted")).type, "model");
    assert.equal((await client.models.list()).data[0].id, "scripted");
  },
  async "errors have the classes that the client knows"() {
    const refused = async (content, type, kind) => {
      const error = await client.messages.create(ask(content, { stream: true })).then(() => null, (error) => error);
      assert.ok(error instanceof type, `${content}: ${error}`);
      assert.equal(error.error.error.type, kind);
      return error;
    };
    const limited = await refused("rate", Anthropic.RateLimitError, "rate_limit_error");
    assert.equal(limited.headers.get("retry-after"), "9");
    await refused("key", Anthropic.AuthenticationError, "authentication_error");
    await refused("broken", Anthropic.InternalServerError, "api_error");
    await refused("busy", Anthropic.InternalServerError, "overloaded_error");
    await refused("nothing fits this", Anthropic.BadRequestError, "invalid_request_error");
  },
  async "a malformed request is refused as the vendor would"() {
    const refused = (body, words) => assert.rejects(client.post("/v1/messages", { body }), words);
    const { max_tokens: _, ...endless } = ask("well");
    await refused(endless, /max_tokens: Field required/);
    await refused(ask("well", { tempo: 1 }), /tempo: Extra inputs are not permitted/);
    await refused(ask("well", { temperature: 1 }), /temperature: Extra inputs are not permitted/);
    await refused(ask("well", { messages: [] }), /at least one message is required/);
    await refused(ask("well", { messages: [{ role: "system", content: "x" }] }), /messages.0.role/);
    await refused(ask([{ type: "text", text: "" }]), /non-empty/);
    const headers = { "content-type": "application/json" };
    const send = (more) => {
      const request = { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(ask("well")) };
      return fetch(new URL("/v1/messages", baseURL), request).then((response) => response.text());
    };
    assert.match(await send({ "anthropic-version": "2026-10-21" }), /x-api-key header is required/);
    assert.match(await send({ "x-api-key": "k", "anthropic-version": "2023-06-02" }), /is not a valid version/);
    assert.match(await send({ "x-api-key": "k", "anthropic-version": "2023-06-01" }), /"well"/);
    assert.match(await send({ "x-api-key": "k" }), /anthropic-version: header is required/);
  },
  async "an error within a stream, a malformed event and a break are errors to the client"() {
    for (const content of ["error", "malformed", "break"]) {
      let text = "";
      await assert.rejects(async () => {
        for await (const event of await client.messages.create(ask(content, { stream: true }))) {
          if (event.type === "content_block_delta") text += event.delta.text ?? "";
        }
      }, Error, content);
      assert.equal(text, "12345", content);
    }
  },
});
