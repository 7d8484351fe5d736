// Holds the scripted model's generated content against Google's own client: it must accept what is sent and refuse what should be
// refused. Started by ../model_vendor_client.rs with the server's address; the script that is served stands there.

import assert from "node:assert/strict";
import { ApiError, GoogleGenAI } from "@google/genai";
import { run } from "./run.mjs";

const baseUrl = process.argv[2];
const { models } = new GoogleGenAI({ apiKey: "AIza-vendor-1", httpOptions: { baseUrl, timeout: 20_000 } });
const TEXT = "  <file path=\"a.ts\">\n\tlet a = \"ü🚀\";\n</file>\n";
const PIXEL = Buffer.from("a picture").toString("base64");

const ask = (contents, config) => ({ model: "scripted", contents, config });
const parts = (response) => response.candidates?.[0]?.content?.parts ?? [];

await run({
  async "a stream is iterated: thoughts first, text exact, the end last"() {
    const chunks = [];
    for await (const chunk of await models.generateContentStream(ask("plain"))) chunks.push(chunk);
    const said = (thought) => chunks.flatMap(parts).filter((part) => Boolean(part.thought) === thought).map((part) => part.text).join("");
    assert.equal(said(false), TEXT);
    assert.equal(said(true), "Hm.\n");
    assert.equal(chunks.at(-1).candidates[0].finishReason, "MAX_TOKENS");
    const { promptTokenCount, cachedContentTokenCount, candidatesTokenCount, thoughtsTokenCount } = chunks.at(-1).usageMetadata;
    assert.deepEqual([promptTokenCount, cachedContentTokenCount, candidatesTokenCount, thoughtsTokenCount], [7, 3, 4, 1]);
  },
  async "a whole answer says the same"() {
    const response = await models.generateContent(ask("plain"));
    assert.equal(response.text, TEXT);
    assert.equal(response.candidates[0].finishReason, "MAX_TOKENS");
  },
  async "instructions, options and images are taken"() {
    const contents = [{ role: "user", parts: [{ inlineData: { mimeType: "image/png", data: PIXEL } }, { text: "well" }] }];
    const config = { systemInstruction: "Be brief.", temperature: 0, maxOutputTokens: 64, responseMimeType: "text/plain" };
    assert.equal((await models.generateContent(ask(contents, config))).text, "well");
  },
  async "tokens are counted and models described"() {
    assert.equal((await models.countTokens(ask("12345678"))).totalTokens, 2);
    assert.equal((await models.get({ model: "scripted" })).name, "models/scripted");
  },
  async "errors have the statuses that the client knows"() {
    const refused = async (contents, status, words) => {
      for (const call of [models.generateContentStream(ask(contents)), models.generateContent(ask(contents))]) {
        const error = await call.then(() => null, (error) => error);
        assert.ok(error instanceof ApiError, `${contents}: ${error}`);
        assert.equal(error.status, status, contents);
        assert.match(error.message, words);
      }
    };
    await refused("rate", 429, /"retryDelay":"9s".*RESOURCE_EXHAUSTED/);
    await refused("key", 400, /API_KEY_INVALID/);
    await refused("broken", 500, /INTERNAL/);
    await refused("busy", 503, /UNAVAILABLE/);
    await refused("nothing fits this", 400, /INVALID_ARGUMENT/);
  },
  async "a prompt that is blocked is an answer without a candidate"() {
    for await (const chunk of await models.generateContentStream(ask("unsafe"))) {
      assert.equal(chunk.promptFeedback.blockReason, "SAFETY");
      assert.equal(chunk.candidates, undefined);
    }
  },
  async "a malformed request is refused as the vendor would"() {
    const refused = async (body, words, headers = { "x-goog-api-key": "k" }) => {
      const response = await fetch(new URL("/v1beta/models/scripted:generateContent", baseUrl), {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
      assert.ok(!response.ok);
      assert.match(await response.text(), words);
    };
    const contents = [{ role: "user", parts: [{ text: "well" }] }];
    await refused({}, /contents is not specified/);
    await refused({ contents, tempo: 1 }, /Unknown name \\"tempo\\"/);
    await refused({ contents, generationConfig: { tempo: 1 } }, /Unknown name \\"tempo\\" at 'generation_config'/);
    await refused({ contents: [{ role: "assistant", parts: [{ text: "x" }] }] }, /valid role: user, model/);
    await refused({ contents: [{ role: "user", parts: [] }] }, /must not be empty/);
    await refused({ contents }, /PERMISSION_DENIED/, {});
  },
  async "an error within a stream, a malformed event and a break are errors to the client"() {
    for (const contents of ["error", "malformed", "break"]) {
      let text = "";
      await assert.rejects(async () => {
        for await (const chunk of await models.generateContentStream(ask(contents))) text += chunk.text ?? "";
      }, Error, contents);
      assert.equal(text, "12345", contents);
    }
  },
});
