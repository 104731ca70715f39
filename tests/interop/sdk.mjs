// Runs the calls that come as JSON on standard input with the openai package of Node,
// and prints what each of them gave, as tests/interop/test_sdks.py does with Python's.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const OpenAI = createRequire(process.env.AOTX_NODE_MODULES + "/x")("openai").default;
const { url, token, calls } = JSON.parse(readFileSync(0, "utf8"));
const client = (key) => new OpenAI({ baseURL: url + "/v1", apiKey: key ?? token });

async function streamed(body, leave) {
  const stream = await client().chat.completions.create(body);
  let text = "";
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage?.total_tokens ?? usage;
    if (leave && text) {
      stream.controller.abort();
      return { left: true };
    }
  }
  return { text, usage };
}

async function whole(body, key) {
  const answer = await client(key).chat.completions.create(body);
  return { text: answer.choices[0].message.content, usage: answer.usage.total_tokens };
}

async function perform(call) {
  switch (call.kind) {
    case "models":
      return { ids: (await client().models.list()).data.map((model) => model.id) };
    case "model":
      return { ids: [(await client().models.retrieve(call.id)).id] };
    case "chat":
      return whole(call.body, call.token);
    case "stream":
      return streamed(call.body, false);
    case "leave":
      return streamed(call.body, true);
    case "many":
      return { texts: (await Promise.all(call.bodies.map((b) => whole(b)))).length };
  }
}

const results = [];
for (const call of calls) {
  try {
    results.push(await perform(call));
  } catch (error) {
    results.push({ status: error.status, code: error.code, param: error.param ?? null });
  }
}
console.log(JSON.stringify(results));
