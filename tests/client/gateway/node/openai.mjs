// SPDX-License-Identifier: GPL-3.0-or-later
// OpenAI's own client against a gateway: node openai.mjs URL KEY.  Prints what it saw as one line of JSON.
import OpenAI from "openai";

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

const refusal = async (call) => {
  try {
    await call();
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, type: error.type, message: error.message,
      retryAfter: error.headers?.get("retry-after") ?? null };
  }
  return null;
};

const page = await client.vectorStores.search("acme", { query: "json", max_num_results: 2 });
const chosen = await client.vectorStores.search("acme", {
  query: "json", filters: { type: "eq", key: "source", value: "nowhere" },
});
const iterated = [];
for await (const one of client.vectorStores.search("acme", { query: "xml", ranking_options: { score_threshold: 0.1 } })) {
  iterated.push(one.file_id);
}
console.log(JSON.stringify({
  data: page.data,
  chosen: chosen.data,
  iterated,
  other: await refusal(() => client.vectorStores.search("globex", { query: "json" })),
  rewritten: await refusal(() => client.vectorStores.search("acme", { query: "json", rewrite_query: true })),
  stranger: await refusal(() =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "another key", maxRetries: 0 })
      .vectorStores.search("acme", { query: "json" })),
  spent: await refusal(async () => {
    for (let i = 0; i < 9; i++) await client.vectorStores.search("acme", { query: `json ${i}` });
  }),
}));
