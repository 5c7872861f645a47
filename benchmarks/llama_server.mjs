// llama.cpp behind OpenAI's door: any GGUF file is an engine for `dragoman --engine`.
//
//     npm install node-llama-cpp
//     node llama_server.mjs MODEL.gguf PORT [THREADS]
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is where the command runs, not where this file is.
const require = createRequire(`${process.cwd()}/`);
const { getLlama, LlamaChatSession } = await import(
    pathToFileURL(require.resolve("node-llama-cpp"))
);
const [, , modelPath, port, threads] = process.argv;
const llama = await getLlama({ gpu: false, build: "never", progressLogs: false });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 4096, threads: Number(threads) || 0 });
let last = Promise.resolve();

async function complete(body) {
    const sequence = context.getSequence();
    try {
        const system = body.messages.filter((message) => message.role === "system");
        const session = new LlamaChatSession({
            contextSequence: sequence,
            systemPrompt: system.map((message) => message.content).join("\n"),
        });
        const { responseText, stopReason } = await session.promptWithMeta(
            body.messages.at(-1).content,
            { maxTokens: Math.min(body.max_tokens ?? 512, 512), temperature: body.temperature ?? 0 },
        );
        const reason = stopReason === "maxTokens" ? "length" : "stop";
        return {
            choices: [
                { message: { role: "assistant", content: responseText }, finish_reason: reason },
            ],
            usage: { total_tokens: sequence.nextTokenIndex },
        };
    } finally {
        sequence.dispose();
    }
}

http.createServer((request, response) => {
    let raw = "";
    request.on("data", (chunk) => (raw += chunk));
    request.on("end", () => {
        // One at a time: the context has one sequence.
        last = last.then(async () => {
            try {
                const answer = JSON.stringify(await complete(JSON.parse(raw)));
                response.writeHead(200, { "Content-Type": "application/json" }).end(answer);
            } catch (error) {
                response.writeHead(500).end(JSON.stringify({ error: String(error) }));
            }
        });
    });
}).listen(Number(port), "127.0.0.1", () => console.log(`listening on ${port}`));
