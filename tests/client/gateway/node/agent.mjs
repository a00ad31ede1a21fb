// SPDX-License-Identifier: GPL-3.0-or-later
// A tool of the AI SDK over a gateway, in the SDK's own loop: node agent.mjs URL KEY QUESTION.  The model is the SDK's
// scripted one, which asks for the tool and then repeats what the tool gave; schema, call and loop are the real ones.
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

const [url, key, question] = process.argv.slice(2);

const search = tool({
  description: "Documents for a question; each call costs one query of the account's budget.",
  inputSchema: z.object({ query: z.string().min(1), max_num_results: z.number().int().min(1).max(50).optional() }),
  outputSchema: z.object({
    results: z.array(z.object({ id: z.string(), text: z.string(), score: z.number().nullable(), seq: z.number() })),
    answers: z.array(z.object({ window: z.string(), seq: z.number(), checked: z.boolean() })),
  }),
  execute: async (input) => {
    const answer = await fetch(`${url}/v1/search`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(input),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error.message);
    return body;
  },
});

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const told = prompt.at(-1);
    if (told.role !== "tool") {
      const input = JSON.stringify({ query: question, max_num_results: 2 });
      return {
        content: [{ type: "tool-call", toolCallId: "1", toolName: "search", input }],
        finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [],
      };
    }
    return {
      content: [{ type: "text", text: JSON.stringify(told.content[0].output) }],
      finishReason: { unified: "stop", raw: undefined }, usage, warnings: [],
    };
  },
});

const said = await generateText({ model, tools: { search }, stopWhen: stepCountIs(3), prompt: question });
console.log(JSON.stringify({ steps: said.steps.length, output: JSON.parse(said.text) }));
