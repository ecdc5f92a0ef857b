//! Every bound that weir holds itself to, with its unit. Defaults of settings are named `_DEFAULT`.

/// Deepest nesting of a JSON message.
pub const JSON_DEPTH_MAX: usize = 64;
/// Most keys in one JSON object of a message; duplicates are looked for among them.
pub const JSON_KEYS_MAX: usize = 4096;
/// Largest request body, in bytes.
pub const BODY_BYTES_DEFAULT: usize = 4 << 20;
/// Largest answer of an upstream, in bytes: one JSON body, one SSE event, or one stdio line.
pub const ANSWER_BYTES_DEFAULT: usize = 8 << 20;
/// Largest request head (request line and fields), in bytes.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Most header fields in a request.
pub const HEAD_FIELDS_MAX: usize = 100;
/// How long a request head may take, in milliseconds.
pub const HEAD_MS_DEFAULT: u64 = 10_000;
/// How long a request body may take, in milliseconds.
pub const BODY_MS_DEFAULT: u64 = 30_000;
/// How long an upstream may take to answer a call, in milliseconds.
pub const ANSWER_MS_DEFAULT: u64 = 60_000;
/// How long a dial (name, connection, TLS) may take, in milliseconds.
pub const DIAL_MS_MAX: u64 = 5_000;
/// How long a drain waits for calls in flight, in milliseconds.
pub const DRAIN_MS_DEFAULT: u64 = 10_000;
/// Most connections open to agents at once, over all threads.
pub const CONNECTIONS_DEFAULT: usize = 4096;
/// Most connections from one address on which no good key was shown yet.
pub const STRANGERS_CONNECTIONS_DEFAULT: usize = 1024;
/// Connections that were told to give up their places and have not closed yet; while there are as many,
/// no more are told.
pub const CLOSING_MAX: usize = 1024;
/// When a client may try again that found no place, in milliseconds.
pub const BUSY_RETRY_MS: u64 = 1_000;
/// Most idle upstream connections kept by one thread for one target.
pub const IDLE_UPSTREAMS_MAX: usize = 64;
/// How long an idle upstream connection is kept, in milliseconds.
pub const IDLE_UPSTREAM_MS_MAX: u64 = 60_000;
/// Sites named by agents to which one thread keeps idle connections; the one that was used longest ago goes first.
pub const SITES_POOLED_MAX: usize = 256;
/// Most idle connections kept by one thread for one of them.
pub const SITE_IDLE_MAX: usize = 4;
/// Most idle connections kept by one thread for all of them.
pub const SITES_IDLE_MAX: usize = 512;
/// Names whose addresses one thread keeps; the oldest goes first.
pub const RESOLVED_MAX: usize = 1024;
/// How long the addresses of a name are kept, in milliseconds.
pub const RESOLVED_MS: u64 = 30_000;
/// Names that one thread asks for at once; more wait.
pub const RESOLVING_MAX: usize = 16;
/// Calls a minute for one agent.
pub const CALLS_PER_MINUTE_DEFAULT: u32 = 600;
/// Requests of an agent, with those that were refused, for each call that its limit allows.
pub const REQUESTS_PER_CALL_MAX: u32 = 2;
/// Requests a minute without a good key, from one address.
pub const STRANGERS_PER_MINUTE_DEFAULT: u32 = 60;
/// Time between two records of requests that are over a budget, in milliseconds.
pub const FLOOD_RECORD_MS: u64 = 10_000;
/// Agents and addresses whose limits are remembered at once; the longest unseen is forgotten.
pub const COUNTED_MAX: usize = 65_536;
/// Bytes of one record, after which its variable parts are cut (tlog-tiles: an entry is at most 65,535).
pub const RECORD_BYTES_MAX: usize = 16 << 10;
/// Records waiting for a commit; a call over it is refused.
pub const RECORDS_WAITING_MAX: usize = 8192;
/// Logs in one state folder: processes that share it write one each.
pub const LOGS_MAX: usize = 64;
/// Entries at the end of a log that no checkpoint covers: the writer signs before there are more.
pub const LOG_UNSIGNED_ENTRIES_MAX: u64 = 4096;
/// The time between the oldest and the newest of those entries, by what their records say, in milliseconds.
pub const LOG_UNSIGNED_MS_MAX: u64 = 10_000;
/// How often an open log looks whether its files still stand where they stood, in milliseconds: while records come, and
/// while none do.
pub const LOG_LOOK_MS: (u64, u64) = (100, 1_000);
/// Bytes of one context attribute in a record.
pub const RECORD_ATTRIBUTE_BYTES_MAX: usize = 256;
/// Bytes of a text that one record has of a snapshot, as JSON writes them.
pub const SNAPSHOT_PART_BYTES_MAX: usize = 48 << 10;
/// Ids of calls in one record of those that are open.
pub const OPEN_CALLS_PART_MAX: usize = 1024;
/// Findings kept of one text.
pub const FINDINGS_MAX: usize = 64;
/// Sessions open at one server at once.
pub const SESSIONS_DEFAULT: usize = 64;
/// Sessions that one agent may have with one server that weir keeps sessions for.
pub const AGENT_SESSIONS_DEFAULT: usize = 16;
/// How long a session of another agent has to be unused before it may be ended to make room, in milliseconds.
pub const SESSION_EVICT_MS: u64 = 60_000;
/// Calls of a session that were given up, whose late answers are dropped; an answer to an older one ends the
/// session.
pub const GIVEN_UP_MAX: usize = 1024;
/// How long a session may be unused, in milliseconds.
pub const SESSION_IDLE_MS_DEFAULT: u64 = 30 * 60_000;
/// Messages waiting for one child's standard input.
pub const CHILD_QUEUE_MAX: usize = 256;
/// How long a child's output is not read because a client takes nothing of what was read for one of its calls or its event
/// stream, in milliseconds; then that call or stream ends.
pub const CLIENT_TAKES_MS_MAX: u64 = 10_000;
/// Messages from a server that wait for a client's event stream.
pub const EVENTS_WAITING_MAX: usize = 256;
/// Calls in flight in one session.
pub const SESSION_CALLS_MAX: usize = 256;
/// First and last wait between two starts of a child, in milliseconds.
pub const BACKOFF_MS: (u64, u64) = (100, 30_000);
/// Characters of a tool's name.
pub const TOOL_NAME_CHARS_MAX: usize = 256;
/// Bytes of a tool's `inputSchema` that are read to check the names of arguments; of a longer one, nothing is known.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Tools read from one list.
pub const TOOLS_MAX: usize = 4096;
/// How long an agent's connection may be unused, in milliseconds.
pub const IDLE_CLIENT_MS_DEFAULT: u64 = 75_000;
/// How long a client may take none of its answer, in milliseconds.
pub const WRITE_MS_DEFAULT: u64 = 30_000;
/// Connections over the bound that one thread refuses at once; more are closed without a word.
pub const REFUSING_MAX: usize = 64;
/// Bytes read and thrown away after a refusal, so that the client sees it before the connection closes.
pub const LINGER_BYTES_MAX: usize = 64 << 20;
/// How long that may take, in milliseconds.
pub const LINGER_MS_MAX: u64 = 10_000;
/// How long nothing may come in that time, in milliseconds.
pub const LINGER_QUIET_MS_MAX: u64 = 1_000;
/// Addresses tried of those that one name resolves to.
pub const DIAL_ADDRESSES_MAX: usize = 8;
/// Bytes waiting for one child's standard input.
pub const CHILD_QUEUE_BYTES_MAX: usize = 16 << 20;
/// How long a line waits for a child that does not read, in milliseconds.
pub const CHILD_SEND_MS_MAX: u64 = 10_000;
/// How long a child has between SIGTERM and SIGKILL, in milliseconds.
pub const CHILD_GRACE_MS: u64 = 2_000;
/// How long a child's guard sends SIGKILL to what is left after that, in milliseconds.
pub const CHILD_KILL_MS_MAX: u64 = 5_000;
/// How long a dead child's last output is waited for, in milliseconds.
pub const CHILD_LAST_MS_MAX: u64 = 500;
/// Bytes kept of one line that a child writes to its standard error.
pub const CHILD_STDERR_LINE_BYTES_MAX: usize = 1024;
/// Lines logged in one second of one child's standard error; more are counted.
pub const CHILD_STDERR_LINES_MAX: u64 = 20;
/// Layers of encoding that the scan undoes; deeper text is refused.
pub const SCAN_DEPTH_MAX: usize = 4;
/// Bytes that the scan unpacks from compressed data in one text; more is refused.
pub const SCAN_INFLATED_BYTES_MAX: usize = 4 << 20;
/// What a stream keeps of what it let go, in bytes: what a match may need of the text before it.
pub const STREAM_CONTEXT_BYTES: usize = 1 << 10;
/// What a stream holds back at most, in bytes: more than the longest key in PEM.
pub const STREAM_HELD_BYTES_MAX: usize = 16 << 10;
/// Agents of which is remembered what they did lately.
pub const SESSION_AGENTS_MAX: usize = 4096;
/// Calls of one agent that may be judged and not yet recorded, of which what is remembered can be taken back.
pub const SESSION_PENDING_MAX: usize = 64;
/// How long that is remembered of a silent agent, in milliseconds.
pub const SESSION_IDLE_MS_MAX: u64 = 600_000;
/// What is kept of the end of an argument, to find a secret that goes on in the next call, in bytes.
pub const SCAN_FRAGMENT_BYTES_MAX: usize = 192;
/// Arguments of one agent of which that is kept.
pub const SCAN_FRAGMENTS_MAX: usize = 16;
/// For how long it is kept, in milliseconds.
pub const SCAN_FRAGMENT_MS_MAX: u64 = 120_000;
/// Rounds of percent-encoding that the scan undoes in one layer.
pub const SCAN_PERCENT_ROUNDS_MAX: usize = 8;
/// Bytes of the shortest run that the scan decodes.
pub const SCAN_ENCODED_BYTES_MIN: usize = 20;
/// Bytes that the scan may read for each byte of a text, over all views and rules.
pub const SCAN_WORK_PER_BYTE_MAX: usize = 64;
/// Bytes that the scan may always read, however short the text.
pub const SCAN_WORK_BYTES_MIN: usize = 64 << 10;
/// Findings of one text, kept or not; more is refused.
pub const SCAN_REDACTIONS_MAX: usize = 4096;
/// Policies in force at once.
pub const POLICIES_MAX: usize = 10_000;
/// Arguments that the setting `policy.arguments` declares.
pub const ARGUMENTS_DECLARED_MAX: usize = 256;
/// Slices of the policies kept: one for each agent, action and tool that was asked for lately.
pub const SLICES_MAX: usize = 65_536;
/// Sets of policies kept for slices to share; over it, sharing starts anew.
pub const PARTS_MAX: usize = 1024;
/// Bytes of one argument that a policy reads, as JSON.
pub const ARGUMENT_BYTES_MAX: usize = 1 << 20;
/// Items of one argument that a policy reads as a set.
pub const ARGUMENT_ITEMS_MAX: usize = 4096;
/// Most records that `weir audit show --last` keeps in memory.
pub const AUDIT_LAST_MAX: usize = 100_000;
/// Bytes of the reason that `weir audit accept` records.
pub const AUDIT_REASON_BYTES_MAX: usize = 1024;
/// Bytes of a checkpoint that `weir audit verify` is given.
pub const AUDIT_CHECKPOINT_BYTES_MAX: usize = 64 << 10;
/// Tools of one server whose definitions are remembered; more are not listed.
pub const PINS_MAX: usize = 4096;
/// Bytes of one definition that are kept to show what changed; of a longer one only its digest.
pub const PIN_TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of all definitions of one server that are kept, past which there are only digests.
pub const PINS_TEXT_BYTES_MAX: usize = 8 << 20;
/// Bytes of the file that holds one server's definitions.
pub const PINS_FILE_BYTES_MAX: usize = 32 << 20;
/// How long the shared store may take to answer, in milliseconds; a later answer is none.
pub const CACHE_ANSWER_MS_MAX: u64 = 1_000;
/// How long a connection with the shared store, and its examination, may take, in milliseconds.
pub const CACHE_DIAL_MS_MAX: u64 = 2_000;
/// Longest wait between two attempts to connect with the shared store, in milliseconds.
pub const CACHE_BACKOFF_MS_MAX: u64 = 500;
/// Between two looks at how the shared store is, in milliseconds.
pub const CACHE_WATCH_MS: u64 = 1_000;
/// What is older than the start of a run of the shared store may be from this much after it, in milliseconds: two clocks,
/// each two seconds off, and a message two seconds ahead.
pub const CACHE_RUN_MS: u64 = 6_000;
/// Questions that wait for one thread's connection with the shared store; one more is not asked.
pub const CACHE_QUEUE_MAX: usize = 1_024;
/// Questions that were sent on one connection with the shared store and have no answer yet.
pub const CACHE_PIPELINE_MAX: usize = 1_024;
/// Longest reply of the shared store, in bytes.
pub const CACHE_REPLY_BYTES_MAX: usize = 64 << 10;
/// Most elements in one reply of the shared store.
pub const CACHE_REPLY_ELEMENTS_MAX: usize = 64;
/// Streams of one HTTP/2 connection at once, as the side that takes them: requests that are being answered.
pub const HTTP2_STREAMS_MAX: u32 = 128;
/// Streams that weir opens on one HTTP/2 connection to a server before it dials another.
pub const HTTP2_UPSTREAM_STREAMS_MAX: usize = 100;
/// Bytes of one stream that may come before they are read (RFC 9113, section 6.9.2).
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Bytes of all streams of one connection that may come before they are read.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of one stream that wait to be written.
pub const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;
/// Bytes, each way, between a stream of HTTP/2 and the exchange of HTTP/1.1 that it is translated to.
pub const HTTP2_EXCHANGE_BYTES: usize = 16 << 10;
/// Frames of one HTTP/2 connection in a second that carry nothing of a request: SETTINGS, PING, PRIORITY, CONTINUATION,
/// empty DATA, and those of unknown types. More end the connection.
pub const HTTP2_IDLE_FRAMES_MAX: u32 = 1_000;
/// Streams that the client of one HTTP/2 connection may take back in a second; more end the connection.
pub const HTTP2_RESETS_MAX: u32 = 200;
/// Streams that were taken back before anybody looked at them, and malformed ones that are remembered; more end the
/// connection.
pub const HTTP2_PENDING_RESETS_MAX: usize = 20;
/// Malformed streams of one HTTP/2 connection; more end it.
pub const HTTP2_ERRORS_MAX: usize = 256;
/// How long the other side of an HTTP/2 connection that ends may take to close it, in milliseconds.
pub const HTTP2_CLOSING_MS: u64 = 1_000;
