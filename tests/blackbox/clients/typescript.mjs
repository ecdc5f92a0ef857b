// The official TypeScript client: lists the tools of a server, calls each that standard input names, prints what came.
//
// Arguments: the folder of node_modules, then a URL, or a command and its arguments.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [folder, ...server] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const transport = server[0].startsWith("http://")
  ? new StreamableHTTPClientTransport(new URL(server[0]))
  : new StdioClientTransport({ command: server[0], args: server.slice(1), stderr: "inherit" });
const client = new Client({ name: "blackbox", version: "1" });
await client.connect(transport);
// The client checks what is structured against the schema that was listed.
const { tools } = await client.listTools();
const said = { tools: tools.map((tool) => tool.name), calls: [] };
for (const { name, arguments: given } of JSON.parse(readFileSync(0, "utf8"))) {
  const progress = [];
  const onprogress = ({ progress: done }) => progress.push(done);
  const answer = await client.callTool({ name, arguments: given }, undefined, { onprogress });
  said.calls.push({ name, error: answer.isError ?? false, structured: answer.structuredContent, text: answer.content[0].text, progress });
}
console.log(JSON.stringify(said));
await client.close();
