// Clients of runs that others wrote: `agui URL KEY FOLDER MESSAGES` plays one run by @ag-ui/client, `events URL KEY FOLDER` listens by
// eventsource, which reconnects by itself, until the run has ended. FOLDER has node_modules. What was heard is printed as JSON lines.
import { createRequire } from "node:module";

const [kind, url, key, folder, messages] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const authorization = `Bearer ${key}`;
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function agui() {
  const { HttpAgent } = require("@ag-ui/client");
  const agent = new HttpAgent({ url, headers: { authorization }, threadId: "thread-1", initialMessages: JSON.parse(messages) });
  let failed = null;
  try {
    await agent.runAgent({ runId: "run-1" }, {
      onEvent: ({ event }) => say(event),
      onRunFailed: ({ error }) => { failed = String(error.message ?? error); },
    });
  } catch (error) {
    failed = String(error.message ?? error);
  }
  say({ messages: agent.messages, failed });
}

function events() {
  const { EventSource } = require("eventsource");
  const ends = ["run.completed", "run.failed", "run.cancelled"];
  const kinds = ["run.started", "run.resumed", "run.parked", "step.started", "text.delta", "reasoning.delta", "message.done", "tool.call",
    "tool.result", "refusal", "message.added", ...ends];
  const source = new EventSource(url, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization } }),
  });
  let opens = 0;
  // A timer of its own keeps the process: that of a reconnection may not.
  const stays = setInterval(() => {}, 1_000);
  source.onopen = () => { opens += 1; };
  for (const kind of kinds) {
    source.addEventListener(kind, (event) => {
      say({ id: event.lastEventId, kind, data: JSON.parse(event.data) });
      if (ends.includes(kind)) {
        say({ opens });
        source.close();
        clearInterval(stays);
      }
    });
  }
}

await (kind === "agui" ? agui() : events());
