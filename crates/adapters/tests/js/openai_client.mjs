// Holds the scripted model's chat completions and responses against OpenAI's own client: it must accept what is sent and refuse what
// should be refused. Started by ../model_vendor_client.rs with the base URL; the script that is served stands there.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { run } from "./run.mjs";

const baseURL = process.argv[2];
const client = new OpenAI({ baseURL, apiKey: "sk-vendor-1", maxRetries: 0, timeout: 20_000 });
const TEXT = "  <file path=\"a.ts\">\n\tlet a = \"ü🚀\";\n</file>\n";

const ask = (content, more = {}) => ({ model: "scripted", messages: [{ role: "user", content }], ...more });
const respond = (input, more = {}) => ({ model: "scripted", input, ...more });
const streamed = { stream: true, stream_options: { include_usage: true } };

await run({
  async "a stream is iterated: role first, text exact, finish, then usage in a frame without choices"() {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create(ask("plain", streamed))) chunks.push(chunk);
    const delta = (chunk) => chunk.choices[0]?.delta ?? {};
    assert.equal(delta(chunks[0]).role, "assistant");
    assert.equal(chunks.map((chunk) => delta(chunk).content ?? "").join(""), TEXT);
    assert.equal(chunks.map((chunk) => delta(chunk).reasoning_content ?? "").join(""), "Hm.\n");
    assert.equal(chunks.at(-2).choices[0].finish_reason, "length");
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.prompt_tokens_details.cached_tokens, 3);
    assert.ok(chunks.every((chunk) => chunk.id === chunks[0].id && chunk.object === "chat.completion.chunk"));
  },
  async "the client's own accumulator accepts the stream"() {
    const stream = client.chat.completions.stream(ask("well"));
    const completion = await stream.finalChatCompletion();
    assert.equal(completion.choices[0].message.content, "well");
    assert.equal(completion.choices[0].finish_reason, "stop");
    assert.equal(completion.usage ?? null, null);
  },
  async "a whole answer says the same"() {
    const completion = await client.chat.completions.create(ask("plain"));
    assert.equal(completion.object, "chat.completion");
    assert.equal(completion.choices[0].message.content, TEXT);
    assert.deepEqual([completion.usage.total_tokens, completion.usage.completion_tokens_details.reasoning_tokens], [12, 1]);
    assert.match(completion._request_id, /^req_\d+$/);
  },
  async "models are listed and found"() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["scripted"]);
    assert.equal((await client.models.retrieve("scripted")).object, "model");
  },
  async "errors have the classes that the client knows"() {
    const refused = async (content, type, code) => {
      const error = await client.chat.completions.create(ask(content, streamed)).then(() => null, (error) => error);
      assert.ok(error instanceof type, `${content}: ${error}`);
      assert.equal(error.code, code);
      return error;
    };
    const limited = await refused("rate", OpenAI.RateLimitError, "rate_limit_exceeded");
    assert.equal(limited.headers.get("retry-after"), "9");
    await refused("key", OpenAI.AuthenticationError, "invalid_api_key");
    await refused("broken", OpenAI.InternalServerError, "server_error");
    await refused("nothing fits this", OpenAI.BadRequestError, "no_rule_fits");
    await assert.rejects(client.chat.completions.create({ model: "scripted", messages: [] }), OpenAI.BadRequestError);
    await assert.rejects(client.chat.completions.create(ask("well", { tempo: 1 })), /Unknown parameter: 'tempo'/);
    await assert.rejects(client.post("/replies", { body: {} }), OpenAI.NotFoundError);
  },
  async "an error within a stream, a malformed frame and a break are errors to the client"() {
    for (const [content, expected] of [["error", OpenAI.APIError], ["malformed", SyntaxError], ["break", Error]]) {
      const stream = await client.chat.completions.create(ask(content, streamed));
      let text = "";
      await assert.rejects(async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      }, expected, content);
      assert.equal(text, "12345", content);
    }
  },
  async "the client's own retries come through"() {
    const patient = client.withOptions({ maxRetries: 2 });
    const completion = await patient.chat.completions.create(ask("later"));
    assert.equal(completion.choices[0].message.content, "now");
  },
  async "a stream that the client gives up is noted by the server"() {
    const stream = await client.chat.completions.create(ask("stall", streamed));
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) stream.controller.abort();
    const deadline = Date.now() + 20_000;
    for (;;) {
      const { requests } = await (await fetch(new URL("/__requests", baseURL))).json();
      if (requests.some((request) => request.rule === "stall" && request.way === "broken")) break;
      assert.ok(Date.now() < deadline, "the server has not noticed");
    }
  },
  async "a response is iterated: items opened, filled and closed, the whole at both ends"() {
    const events = [];
    for await (const event of await client.responses.create(respond("plain", { stream: true }))) events.push(event);
    const said = (type) => events.filter((event) => event.type === type).map((event) => event.delta).join("");
    assert.equal(said("response.output_text.delta"), TEXT);
    assert.equal(said("response.reasoning_summary_text.delta"), "Hm.\n");
    assert.ok(events.every((event, index) => event.sequence_number === index));
    assert.deepEqual([events[0].type, events.at(-1).type], ["response.created", "response.incomplete"]);
    const { response } = events.at(-1);
    assert.equal(response.incomplete_details.reason, "max_output_tokens");
    assert.deepEqual([response.usage.input_tokens_details.cached_tokens, response.usage.output_tokens], [3, 5]);
  },
  async "the client's own accumulator accepts the response's stream"() {
    const response = await client.responses.stream(respond("well")).finalResponse();
    assert.deepEqual([response.output_text, response.status], ["well", "completed"]);
  },
  async "a whole response says the same"() {
    const response = await client.responses.create(respond("plain"));
    assert.deepEqual([response.output_text, response.status], [TEXT, "incomplete"]);
    assert.equal(response.output[0].summary[0].text, "Hm.\n");
  },
  async "a response takes instructions, options and images, and refuses what it does not know"() {
    const image = { type: "input_image", image_url: `data:image/png;base64,${Buffer.from("a picture").toString("base64")}`, detail: "auto" };
    const input = [{ role: "user", content: [{ type: "input_text", text: "well" }, image] }];
    const options = { instructions: "Be brief.", store: false, max_output_tokens: 64, reasoning: { effort: "low" } };
    assert.equal((await client.responses.create({ model: "scripted", input, ...options })).output_text, "well");
    const refused = (body, words) => assert.rejects(client.responses.create(body), words);
    await refused({ model: "scripted" }, /Missing required parameter: 'input'/);
    await refused({ model: "scripted", input: [] }, /empty array/);
    await refused(respond("well", { tempo: 1 }), /Unknown parameter: 'tempo'/);
    await refused(respond("well", { max_output_tokens: 1 }), /below minimum value/);
    await refused({ model: "scripted", input: [{ role: "robot", content: "x" }] }, /Invalid value: 'robot'/);
  },
  async "a response that fails says so, and one that is refused has the class that the client knows"() {
    const events = [];
    for await (const event of await client.responses.create(respond("error", { stream: true }))) events.push(event);
    assert.deepEqual([events.at(-1).type, events.at(-1).response.error.code], ["response.failed", "server_error"]);
    for (const content of ["malformed", "break"]) {
      await assert.rejects(async () => {
        for await (const _ of await client.responses.create(respond(content, { stream: true })));
      }, Error, content);
    }
    await assert.rejects(client.responses.create(respond("rate")), OpenAI.RateLimitError);
    await assert.rejects(client.responses.create(respond("key")), OpenAI.AuthenticationError);
  },
});
