//! A no, with its reason: what the agent is told, and what only the record keeps.

use std::fmt;

/// One kind of refusal. All of them stand in [`ALL`]; `docs/reference/refusals.md` is made from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Stable and dotted, such as `limit.agent`.
    pub name: &'static str,
    /// The HTTP status where HTTP carries it.
    pub status: u16,
    /// One sentence for the agent: what to do about it.
    pub mend: &'static str,
    /// The same where the server said what is refused; empty where that changes nothing.
    pub mend_answer: &'static str,
    /// The error code where JSON-RPC carries it.
    pub rpc: i64,
    /// Whether the scan says it. A call that passed has then not failed: its answer was refused.
    pub is_of_scan: bool,
}

/// The JSON-RPC code of refusals that have none of their own. It is outside the range that JSON-RPC reserves, where MCP
/// 2026-07-28 (section "Error Codes") keeps −32099 to −32020 to itself.
pub const RPC_REFUSED: i64 = -31050;

/// A decision not to do what was asked.
#[derive(Clone)]
pub struct Refusal {
    pub code: &'static Code,
    /// What happened, for the agent; never holds a secret or anything that the agent did not send.
    pub public: String,
    /// What only the operator sees, in the record.
    pub private: String,
    /// When the same call may succeed, in milliseconds from now, where that is known.
    pub retry_ms: Option<u64>,
    /// What could be asked in its place, where the protocol has that told: the revisions that are spoken.
    pub supported: Vec<&'static str>,
    /// Header fields that say more where HTTP carries it, such as a challenge: name in lower case, and value.
    pub fields: Box<[(&'static str, String)]>,
    /// It is of what a server said.
    is_of_answer: bool,
}

impl Refusal {
    pub fn new(code: &'static Code, public: impl Into<String>) -> Refusal {
        Refusal {
            code,
            public: public.into(),
            private: String::new(),
            retry_ms: None,
            supported: Vec::new(),
            fields: Box::default(),
            is_of_answer: false,
        }
    }

    /// The same, of what a server said.
    pub fn of_answer(mut self) -> Refusal {
        self.is_of_answer = true;
        self
    }

    /// What to do about it.
    pub fn mend(&self) -> &'static str {
        match self.is_of_answer && !self.code.mend_answer.is_empty() {
            true => self.code.mend_answer,
            false => self.code.mend,
        }
    }

    /// Adds what only the record keeps.
    pub fn with_private(mut self, private: impl Into<String>) -> Refusal {
        self.private = private.into();
        self
    }

    /// Adds what could be asked in its place.
    pub fn with_supported(mut self, supported: Vec<&'static str>) -> Refusal {
        self.supported = supported;
        self
    }

    /// Adds a header field, where HTTP carries it. The value is of visible ASCII characters and spaces.
    pub fn with_field(mut self, name: &'static str, value: String) -> Refusal {
        let mut fields = std::mem::take(&mut self.fields).into_vec();
        fields.push((name, value));
        self.fields = fields.into_boxed_slice();
        self
    }

    pub fn with_retry_ms(mut self, retry_ms: u64) -> Refusal {
        self.retry_ms = Some(retry_ms);
        self
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.code.name, self.public, self.private)
    }
}

/// Makes the table: one line a code, and a constant for each.
macro_rules! codes {
    ($($constant:ident $name:literal $status:literal $mend:literal $(answer $answer:literal)? $(rpc $rpc:literal)? $(of_scan $of_scan:literal)?;)*) => {
        $(pub const $constant: &Code = &Code {
            name: $name,
            status: $status,
            mend: $mend,
            mend_answer: [$($answer,)? ""][0],
            rpc: [$($rpc,)? RPC_REFUSED][0],
            is_of_scan: [$($of_scan,)? false][0],
        };)*
        /// Every refusal code, in the order of the path.
        pub const ALL: &[&Code] = &[$($constant),*];
    };
}

codes! {
    // The edge: before anything is known of the caller.
    HEAD_TOO_LARGE "http.head_too_large" 431 "Send fewer or shorter header fields.";
    HEAD_TOO_SLOW "http.head_too_slow" 408 "Send the request head at once, or check the network between.";
    HEAD_INVALID "http.head_invalid" 400 "Send a well-formed HTTP/1.1 request.";
    TARGET_TOO_LONG "http.target_too_long" 414 "Send a shorter path and query.";
    EXPECTATION "http.expectation" 417 "Send no Expect field, or expect: 100-continue.";
    UNSUPPORTED "http.unsupported" 501 "Send the body with a length or with transfer-encoding: chunked alone, and a method that the route names.";
    VERSION "http.version" 505 "Send the request as HTTP/1.1.";
    PROXY "http.proxy" 400 "Connect without a PROXY header; or have the operator name this address in the listener's trusted, with proxy: protocol.";
    TLS "http.tls" 400 "Connect by TLS: write https in the URL.";
    MISDIRECTED "http.misdirected" 421 "Write http in the URL; or connect by TLS to the proxy before the gateway.";
    WEBSOCKET "http.websocket" 400 "Send a WebSocket handshake of version 13 (RFC 6455), as a WebSocket library does.";
    BODY_TOO_LARGE "http.body_too_large" 413 "Send a smaller body, or have the operator raise limits.body_bytes_max.";
    BODY_TOO_SLOW "http.body_too_slow" 408 "Send the body without long pauses.";
    BODY_CUT "http.body_cut" 400 "The body ended early; send it again whole.";
    NOT_FOUND "http.not_found" 404 "Check the path; MCP servers are at /mcp/<server>, models below /v1.";
    METHOD "http.method" 405 "Use a method that the Allow field names.";
    CONTENT_TYPE "http.content_type" 415 "Send content-type: application/json.";
    NOT_ACCEPTED "http.not_accepted" 406 "Send accept: application/json, text/event-stream.";
    ORIGIN "http.origin" 403 "Call from a program, or have the operator add this origin to the origins setting.";
    HOST "http.host" 403 "Call by localhost or by an address in numbers, or have the operator add the site to the origins setting.";
    DRAINING "http.draining" 503 "The gateway is stopping; try again in a moment.";
    BUSY "http.busy" 503 "Wait as long as Retry-After says; the gateway has as many connections as it may have, in all or from this address.";
    FAILED "http.failed" 500 "The gateway failed; give this call's id to the operator.";

    // Who.
    ADMIN_KEY "admin.key" 401 "Send an Authorization field: Bearer, and a key whose hash is admin.key or one of admin.operators of the configuration.";
    ROLE_MISSING "admin.role_missing" 403 "Ask somebody in that role, or have admin.operators of the configuration say that you have it.";
    KEY_MISSING "agent.key_missing" 401 "Send an Authorization field: Bearer, and the key that begins with weir_.";
    KEY_MALFORMED "agent.key_malformed" 401 "Send the key exactly as it was shown: weir_ and 43 characters.";
    KEY_UNKNOWN "agent.key_unknown" 401 "Ask the operator for a key of this gateway.";
    KEY_EXPIRED "agent.key_expired" 401 "Ask the operator for a new key.";
    KEY_USED "agent.key_used" 401 "Make a new proof for each request.";
    ONCE_UNAVAILABLE "once.unavailable" 503 "Try again in a moment with a new proof; the operator finds in /health/ready what is wrong with the store that replicas share.";
    TOKEN_INVALID "agent.token_invalid" 401 "Ask for a new token at /oauth/token.";
    TOKEN_EXPIRED "agent.token_expired" 401 "Ask for a new token at /oauth/token; look at the clocks if it is new.";
    TOKEN_AUDIENCE "agent.token_audience" 401 "Ask for a token whose audience is this gateway.";
    ISSUER_UNKNOWN "agent.issuer_unknown" 401 "Use a token of this gateway or of an issuer that the operator names under identity.issuers.";
    ISSUER_AWAY "agent.issuer_away" 503 "The issuer's keys cannot be had now; try again in a moment.";
    SUBJECT_UNKNOWN "agent.subject_unknown" 401 "Have the operator map this subject to an agent under identity.issuers.";
    PROOF_MISSING "agent.proof_missing" 401 "Send the token with the scheme DPoP and a proof of its key in the DPoP field, or by the certificate that it is bound to.";
    PROOF_INVALID "agent.proof_invalid" 401 "Make a proof as RFC 9449 says, for this method, this URL and this token.";
    PROOF_NONCE "agent.proof_nonce" 401 "Make the proof again with the nonce of the DPoP-Nonce field.";
    CERTIFICATE "agent.certificate_unknown" 401 "Enrol again, or have the operator map the certificate's SPIFFE id to an agent.";
    PENDING "agent.pending" 403 "A person has to approve this agent: weir agents approve.";
    SUSPENDED "agent.suspended" 403 "The operator suspended this agent; ask when it may go on.";
    REVOKED "agent.revoked" 403 "The operator took this agent's access back; ask the operator for another agent.";

    // May they.
    FORBIDDEN "policy.forbidden" 403 "Ask the operator for a policy that permits this.";
    POLICY_BROKEN "policy.broken" 503 "The operator has to mend the policy: weir policy check.";
    ARGUMENT_TYPE "policy.argument_type" 400 "Send the argument with the type that the message names.";
    ARGUMENT_BOUND "policy.argument_bound" 413 "Send a shorter argument; a policy reads this one.";

    ADVISOR "policy.advisor" 403 "A decision point outside of the gateway refused this or did not answer; ask the operator.";
    HELD "policy.held" 403 "A person has to approve this call; send the same call again once that is done.";
    STOPS_INVALID "gate.stops_invalid" 400 "Send a JSON object: stop, a list of all, lane:NAME and agent:NAME.";
    STOPPED "gate.stopped" 503 "The operator stopped this; ask when it goes on.";

    SCOPE "agent.scope_missing" 403 "Ask for a token with the scope that the challenge names.";

    // Identity.
    IDENTITY_OFF "identity.off" 404 "Have the operator write identity: { trust_domain: … } in the configuration.";
    IDENTITY_INVALID "identity.invalid" 400 "Send JSON as docs/identity.md has it.";
    INVITE_UNKNOWN "identity.invite_unknown" 403 "Ask the operator for an invite: weir agents invite.";
    INVITE_USED "identity.invite_used" 403 "The invite was used; ask the operator for another, and tell if it was not you.";
    INVITE_EXPIRED "identity.invite_expired" 403 "Ask the operator for a new invite.";
    INVITE_LOCKED "identity.invite_locked" 403 "The invite was used wrongly too often; ask the operator for a new one.";
    REQUEST_INVALID "identity.request_invalid" 400 "Send a certificate request (PKCS #10) with a good key, for the invite's name alone; or a public JWK with its proof.";
    AUTHORITY_OFF "identity.authority_off" 503 "The operator has to make the authority and name its passphrase: weir ca init.";
    AUTHORITY_AWAY "identity.authority_away" 503 "Try again soon; the operator has to look at the HSM, its token and its PIN.";
    AGENT_TAKEN "identity.agent_taken" 409 "Another agent has this name; use another, or take that one out of the configuration.";
    AGENT_UNKNOWN "identity.agent_unknown" 404 "Use a name that weir agents list shows.";
    AGENT_CONFIGURED "identity.agent_configured" 409 "weir.yaml defines this agent; change it there.";
    AGENT_STATE "identity.agent_state" 409 "Look at the agent's state with weir agents show.";
    IDENTITY_FULL "identity.full" 507 "Take agents, keys or invites out that are not needed.";
    DIRECTORY_FAILED "identity.directory_failed" 503 "The operator has to mend the state folder; nothing was changed.";

    // Is it safe.
    SECRET "scan.secret" 403 "Take the secret out of the call; it was not sent on."
        answer "The server's answer holds a secret and was not passed on; have the secret taken out there, or have the operator exempt this server." of_scan true;
    INJECTION "scan.injection" 403 "The text carries instructions that are not its user's; it was not passed on." of_scan true;
    PERSONAL "scan.personal" 403 "Take the personal data out of the call, or have the operator exempt this target."
        answer "The server's answer holds personal data and was not passed on; ask for less, or have the operator exempt this server." of_scan true;
    COMMAND "scan.command" 403 "The call asks a tool to do what the operator forbids; ask for something narrower."
        answer "The server's answer holds a command that the operator forbids, and was not passed on; ask for something else, or ask the operator." of_scan true;
    URL "scan.url" 403 "The address must not be asked; use another, or have the operator allow it under scan.urls."
        answer "The server's answer holds an address that must not be asked, and was not passed on; ask for something else, or have the operator allow the address under scan.urls." of_scan true;
    TOOL_CHANGED "scan.tool" 403 "The tool is not what was approved; have the operator look at `weir pins diff` and approve it." of_scan true;
    CHAIN "scan.chain" 403 "Together with the calls before it, this call could give secrets away; wait until they no longer count, or ask the operator." of_scan true;
    SCAN_BOUND "scan.bound" 413 "Send less at once; this is more than can be scanned within its bounds."
        answer "Ask for less at once; the server's answer is more than can be scanned within its bounds." of_scan true;

    // Spent.
    LIMIT_AGENT "limit.agent" 429 "Wait as long as Retry-After says, or have the operator raise limits.agent_per_minute.";
    LIMIT_TOKENS "limit.tokens" 429 "Wait as long as Retry-After says, or ask for less.";
    LIMIT_BUDGET "limit.budget" 429 "Wait as long as Retry-After says, ask for less (a smaller max_tokens), or have the operator raise the budget that the message names; GET /v1/usage says how it stands.";
    LIMIT_TOO_DEAR "limit.too_dear" 403 "Ask for less, such as a smaller max_tokens, or have the operator raise the budget that the message names.";
    LIMIT_PRICE_UNKNOWN "limit.price_unknown" 403 "Have the operator say what the model costs, in prices of its provider or in the file llm.prices; or ask another model.";
    BUDGETS "limit.budgets" 503 "The budgets do not answer; try again in a moment.";
    LIMIT_STRANGERS "limit.strangers" 429 "Send a good key, which this limit does not count; or wait as long as Retry-After says, or have the operator raise limits.strangers_per_minute.";
    LIMIT_ADDRESS "limit.address" 429 "Wait as long as Retry-After says, or have the operator raise limits.address_per_minute.";

    // Recorded.
    LOG_FULL "log.full" 507 "The operator has to make room: the log reached log.bytes_max or its disk is full.";
    LOG_FAILED "log.failed" 503 "The operator has to mend the log; nothing passes unrecorded.";
    STORE_AWAY "store.away" 503 "Try again in a moment, or at another replica; the operator has to bring the store back.";
    STORE_BEHIND "store.behind" 503 "Try again in a moment, or at another replica; records do not reach the store.";
    LOG_BUSY "log.busy" 503 "Too many calls wait to be recorded; try again in a moment.";

    // MCP.
    JSON_INVALID "mcp.json_invalid" 400 "Send one JSON-RPC 2.0 message as JSON." rpc -32700;
    JSON_DUPLICATE "mcp.json_duplicate" 400 "Send each key of an object once; keys that differ only in case count as one." rpc -32600;
    NAME_SPELLING "mcp.name_spelling" 400 "Spell the names of members as MCP and the tool's schema do; case counts." rpc -32600;
    JSON_DEEP "mcp.json_deep" 400 "Send JSON with at most 64 levels and 4,096 keys an object." rpc -32600;
    MESSAGE_INVALID "mcp.message_invalid" 400 "Send a JSON-RPC 2.0 request, notification or response." rpc -32600;
    BATCH "mcp.batch" 400 "Send one message a request; this revision has no batches." rpc -32600;
    REVISION "mcp.revision" 400 "Speak a revision that data.supported names." rpc -32022;
    META_MISSING "mcp.meta_missing" 400 "Send params._meta with io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities, as MCP 2026-07-28 asks." rpc -32602;
    HEADER_MISMATCH "mcp.header_mismatch" 400 "Send MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-* once each, equal to what the body says." rpc -32020;
    METHOD_GONE "mcp.method_gone" 404 "Send server/discover, or nothing: this revision has no such method." rpc -32601;
    BATCH_INVALID "mcp.batch_invalid" 400 "Send a batch of 1 to 50 messages, without initialize, or one message alone." rpc -32600;
    NAME_CLASH "mcp.name_clash" 400 "Use one of the names that the message gives; tools/list shows them." rpc -32602;
    ITEM_UNKNOWN "mcp.item_unknown" 400 "Use a name or a URI that a list gives." rpc -32602;
    URI_DOTS "mcp.uri_dots" 400 "Send the URI without dot segments, as a list gives it." rpc -32602;
    CAPABILITY_MISSING "mcp.capability_missing" 400 "Declare the capability that the message names, or do without what asks for it." rpc -32021;
    ENDPOINT_ELSEWHERE "mcp.endpoint_elsewhere" 502 "The server's endpoint has to be at its own address; tell its maintainer.";
    SERVER_CHANGED "mcp.server_changed" 502 "The server was changed or taken out of the configuration; list again.";
    PARK_FULL "mcp.park_full" 503 "Answer or give up questions that are open, or try again as Retry-After says.";
    PARK_TAKEN "mcp.park_taken" 409 "This question was answered already; wait for that answer, or ask anew.";
    PARK_EXPIRED "mcp.park_expired" 410 "The question was not answered in time; ask anew.";
    PARK_GONE "mcp.park_gone" 404 "The process that asked the question is gone; ask anew.";
    ANSWERS_INVALID "mcp.answers_invalid" 400 "Send inputResponses with an object for each question of the last answer." rpc -32602;
    STATE_INVALID "mcp.state_invalid" 400 "Send the requestState that the last answer to this request gave, unchanged." rpc -32602;
    SESSION_MISSING "mcp.session_missing" 400 "Send the Mcp-Session-Id that initialize gave.";
    SESSION_UNKNOWN "mcp.session_unknown" 404 "The session has ended or is not this agent's; initialize again.";
    SESSION_BUSY "mcp.session_busy" 429 "Wait for calls of this session to end; it has as many as it may have.";
    ID_IN_USE "mcp.id_in_use" 400 "Give each request of a session an id of its own.";
    CANCELLED "mcp.cancelled" 499 "Nothing is to be done: the client cancelled this call itself.";
    CLIENT_SLOW "mcp.client_slow" 408 "Read what the server sends as it comes; a server that is a command waits ten seconds for it.";
    EVENT_UNKNOWN "mcp.event_unknown" 400 "Send the Last-Event-ID that the stream gave, or open it without one.";
    STREAM_OPEN "mcp.stream_open" 409 "This session has an event stream already; close it first.";
    SERVER_UNKNOWN "mcp.server_unknown" 404 "Use the name of a server that is configured.";
    SERVER_BUSY "mcp.server_busy" 503 "End a session that is not needed (DELETE), or try again as Retry-After says; see sessions_max and agent_sessions_max.";
    SERVER_DOWN "mcp.server_down" 502 "The server cannot be reached or stopped; try again, or see /health/ready.";
    SERVER_SLOW "mcp.server_slow" 504 "The server did not answer in time; try again or ask for less.";
    ANSWER_TOO_LARGE "mcp.answer_too_large" 502 "The server's answer is larger than limits.answer_bytes_max; ask for less.";
    ANSWER_INVALID "mcp.answer_invalid" 502 "The server answered something that is not MCP; tell its maintainer.";
    // A2A.
    A2A_AGENT_UNKNOWN "a2a.agent_unknown" 404 "Use the name of an agent that the configuration has under a2a.";
    A2A_JSON_INVALID "a2a.json_invalid" 400 "Send one JSON-RPC 2.0 request as JSON." rpc -32700;
    A2A_REQUEST_INVALID "a2a.request_invalid" 400 "Send one JSON-RPC 2.0 request with an id; each name once, and spelled as A2A spells it." rpc -32600;
    A2A_PARAMS_INVALID "a2a.params_invalid" 400 "Send the parameters that A2A has for this method." rpc -32602;
    A2A_METHOD "a2a.method" 404 "Use a method of A2A 1.0 or 0.3 that docs/a2a.md names." rpc -32601;
    A2A_TASK_UNKNOWN "a2a.task_unknown" 404 "Use the id of a task, or of a context, of your own; begin one with a message without it." rpc -32001;
    A2A_PUSH "a2a.push" 400 "Leave the push notification out, and follow the task by SubscribeToTask or GetTask: weir lets no agent call back." rpc -32003;
    A2A_EXTENDED_CARD "a2a.extended_card" 400 "Use the card at /.well-known/agent-card.json below the agent's URL." rpc -32007;
    A2A_CARD_INVALID "a2a.card_invalid" 502 "The agent's card cannot be used; tell its maintainer, or have the operator look at url and card under a2a." rpc -32006;
    A2A_ANSWER_INVALID "a2a.answer_invalid" 502 "The agent answered something that is not A2A; tell its maintainer." rpc -32006;
    A2A_ANSWER_FOREIGN "a2a.answer_foreign" 502 "The agent mixes up whose task is whose; tell its maintainer." rpc -32006;
    A2A_TASKS_FULL "a2a.tasks_full" 503 "Too many tasks are remembered; ask the operator.";
    A2A_DOWN "a2a.agent_down" 502 "The agent cannot be reached or broke off; try again, or ask the operator.";
    A2A_SLOW "a2a.agent_slow" 504 "The agent did not answer in time; ask for the task by GetTask, or send with returnImmediately.";
    // Models.
    LLM_BODY_INVALID "llm.body_invalid" 400 "Send a JSON object as the dialect has it, with each name once.";
    LLM_MODEL_UNKNOWN "llm.model_unknown" 404 "Ask for a model that GET /v1/models shows, or for provider/model.";
    LLM_RESPONSE_UNKNOWN "llm.response_unknown" 404 "Ask with the key of the agent that made the response, or send the conversation itself.";
    LLM_UNCONVERTIBLE "llm.unconvertible" 400 "Leave out what the message names, or ask a model whose provider speaks your dialect.";
    LLM_DIALECT "llm.dialect" 400 "Ask in a dialect that the provider speaks, or for a model of another provider.";
    LLM_NONE_LEFT "llm.none_left" 503 "Try again as Retry-After says, or later; the message says who failed how.";
    LLM_PROVIDER_FAILED "llm.provider_failed" 502 "The provider failed; try again.";
    LLM_PROVIDER_SLOW "llm.provider_slow" 504 "The provider did not answer in time; try again, or ask for less.";
    LLM_ANSWER_INVALID "llm.answer_invalid" 502 "The provider answered something that is not its dialect; tell the operator.";
    LLM_TURNS "llm.turns" 429 "Wait for a response on this connection to end, or open another.";
    // The web.
    WEB_OFF "web.off" 404 "Have the operator write a web section in the configuration.";
    WEB_URL "web.url_invalid" 400 "Send a URL of http or https with a host, without a user name in it.";
    WEB_UNSUPPORTED "web.unsupported" 501 "Speak HTTP/1.1 through the proxy, and CONNECT for https; other protocols are not carried.";
    WEB_DOWN "web.site_down" 502 "The site cannot be reached or broke off; check the name, or try again.";
    WEB_SLOW "web.site_slow" 504 "The site did not answer in time; try again.";
    WEB_TOO_LARGE "web.answer_too_large" 502 "The answer is larger than what may come back at once; ask for less.";
    WEB_CODING "web.coding" 502 "The body cannot be decoded within bounds; ask for it without content-encoding.";
    WEB_BODY_CODING "web.body_coding" 415 "Send the body without content-encoding, or well formed in gzip, deflate, br or zstd.";
    WEB_REDIRECTS "web.redirects" 502 "The site redirects too often; ask for the last URL itself.";
    WEB_TUNNEL "web.tunnel" 403 "Speak TLS in the tunnel, and name the same host in its server name as in CONNECT.";
    WEB_CREDENTIAL "web.credential" 403 "Send the placeholder only in its own field and to its own hosts, by https.";
    WEB_SCAN_INVALID "web.scan_invalid" 400 "Send a JSON object with kind and text, url, tool and args, or message.";
    WEB_BOUND "web.bound" 429 "Wait, or have the operator raise the bounds of web.agent.";
    WEB_PASSIVE "web.not_text" 415 "This is no text that can be fetched; use the proxy for files.";
    WEB_ROBOTS "web.robots" 403 "Ask for another page: the site asks that programs leave this one alone; or have the operator write web.fetch.robots: false.";
    WEB_BINARY "web.binary" 403 "Send texts alone, or have the operator write web.socket.binary: true.";
    // Runs.
    RUN_INVALID "run.invalid" 400 "Send a JSON object with agent (or model), and input, as docs/runs.md has it.";
    RUN_AGENT_UNKNOWN "run.agent_unknown" 404 "Use the name of an agent under runs.agents.";
    RUN_UNKNOWN "run.unknown" 404 "Use the id of a run of your own that GET /v1/runs shows.";
    RUN_GONE "run.gone" 410 "The run was kept as long as runs.keep_days and runs.bytes_max let it be; start another.";
    RUN_LIMIT "run.limit" 403 "Ask for no more than the message says, or have the operator raise it under runs.";
    RUN_BUSY "run.busy" 503 "Wait as long as Retry-After says, or end a run that is not needed; see runs.at_once and runs.agent_at_once.";
    RUN_KEY_REUSED "run.key_reused" 422 "Use each Idempotency-Key for one body alone.";
    RUN_ENDED "run.ended" 409 "Start another run: this one has ended.";
    RUN_NOT_ENDED "run.not_ended" 409 "Read the events of the run, or ask again once it has ended.";
    RUN_EVENT_UNKNOWN "run.event_unknown" 400 "Send the id of an event that the run gave, or none.";
    RUN_UNRECORDED "run.unrecorded" 503 "The operator has to make room on the disk: runs cannot be kept; see /health/ready.";
    RUN_LOOP "run.loop" 409 "Tell the run's model what to do when a tool gives the same answer again.";
    RUN_SPENT "run.spent" 429 "Start another run, with the limit that the message names raised.";
    RUN_MODEL "run.model" 502 "Ask a model that speaks chat completions with tools; the message says what it answered.";
    // The relay.
    RELAY_CALLER "relay.caller" 407 "Send the token that the operator gave you, in the field that the relay asks for, or call by its Unix socket.";
    RELAY_ROUTE "relay.route" 404 "Ask for a host and path that the relay has a route for.";
    RELAY_FORM "relay.form" 400 "Send a well-formed HTTP/1.1 request with a Host and without fields that two readers could take in two ways.";
    RELAY_UNSUPPORTED "relay.unsupported" 501 "The relay carries neither CONNECT nor Upgrade; connect without it.";
    RELAY_TOO_LONG "relay.too_long" 413 "Send less at once; the relay or its peer takes no message of this length.";
    RELAY_DOWN "relay.down" 503 "The peer cannot be reached, and the call was not executed; try again, or see weir relay doctor.";
    RELAY_BUSY "relay.busy" 503 "The peer has no room, and the call was not executed; try again in a moment.";
    RELAY_REFUSED "relay.refused" 403 "The gate of the other side refused the call; its operator finds the reason in its log.";
    RELAY_ORIGIN "relay.origin" 502 "The origin could not be reached, and the call was not executed; try again later.";
    RELAY_FAILED "relay.failed" 502 "The answer was lost or the origin failed; the call may be repeated, because its method is safe.";
    RELAY_MAYBE "relay.maybe_executed" 502 "The call may have been executed: look before you send it again.";
    RELAY_PLAIN "relay.plain_origin" 502 "The server that the request is passed on to failed; try again later.";
    ADDRESS "net.address" 502 "The server's name resolves to an address that is not allowed for it.";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_scan_says_what_is_named_after_it() {
        for code in ALL {
            assert_eq!(
                code.is_of_scan,
                code.name.starts_with("scan."),
                "{}",
                code.name
            );
        }
    }

    #[test]
    fn names_are_dotted_and_unique_and_say_what_to_do() {
        let mut names: Vec<_> = ALL.iter().map(|code| code.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for code in ALL {
            assert_eq!(code.name.split('.').count(), 2, "{}", code.name);
            assert!(
                (400..600).contains(&code.status) && code.mend.ends_with('.'),
                "{}",
                code.name
            );
            let answer = code.mend_answer;
            assert!(answer.is_empty() || answer.ends_with('.'), "{}", code.name);
        }
    }
}
