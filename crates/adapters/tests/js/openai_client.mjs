// Holds the scripted model's wire format against the vendor's own client: it must accept what is sent and refuse what should be
// refused. Started by ../model_vendor_client.rs with the base URL; the script that is served stands there.

import assert from "node:assert/strict";
import OpenAI from "openai";

const baseURL = process.argv[2];
const client = new OpenAI({ baseURL, apiKey: "sk-vendor-1", maxRetries: 0, timeout: 20_000 });
const TEXT = "  <file path=\"a.ts\">\n\tlet a = \"ü🚀\";\n</file>\n";

const ask = (content, more = {}) => ({ model: "scripted", messages: [{ role: "user", content }], ...more });
const streamed = { stream: true, stream_options: { include_usage: true } };

const checks = {
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
    await assert.rejects(client.responses.create({ model: "scripted", input: "x" }), OpenAI.NotFoundError);
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
};

for (const [name, check] of Object.entries(checks)) {
  await check().catch((error) => {
    console.error(`FAILED: ${name}`);
    throw error;
  });
  console.log(`ok: ${name}`);
}
