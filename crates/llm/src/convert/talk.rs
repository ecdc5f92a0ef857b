//! The form between dialects: what a client asks, and what a model says.

use base::record::Usage;
use serde_json::Value;

/// What a client asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Talk {
    /// What the system says, in order.
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<TalkTool>,
    pub(crate) choice: ToolChoice,
    /// Whether several tools may be called at once; absent where it is not said.
    pub(crate) parallel: Option<bool>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) temperature: Option<Value>,
    pub(crate) top_p: Option<Value>,
    pub(crate) top_k: Option<Value>,
    pub(crate) stop: Vec<String>,
    /// Who the client's user is, in a word of its own.
    pub(crate) user: Option<String>,
    pub(crate) format: AnswerFormat,
    pub(crate) effort: Option<Effort>,
    pub(crate) is_stream: bool,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) speaker: Speaker,
    pub(crate) blocks: Vec<TalkBlock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The user, and tools that answer.
    User,
    Assistant,
}

/// A piece of a turn or an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TalkBlock {
    Text(String),
    Image(ImageFrom),
    /// What a model thought, which no other model reads.
    Thinking(String),
    Call(ToolUse),
    Result {
        id: String,
        /// Texts and images.
        content: Vec<TalkBlock>,
        is_error: bool,
    },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolUse {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImageFrom {
    Url(String),
    /// The type of the medium, and base64.
    Data(String, String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TalkTool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Value,
    /// The arguments have to meet the schema.
    pub(crate) is_strict: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// It is not said.
    #[default]
    Unsaid,
    Auto,
    Nothing,
    Any,
    One(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum AnswerFormat {
    #[default]
    Text,
    Json,
    Schema {
        name: String,
        schema: Value,
        is_strict: Option<bool>,
    },
}

/// How long a model may think.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// `low`, `medium`, `high` and the like.
    Word(String),
    Tokens(u64),
}

impl Effort {
    /// As tokens.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Effort::Tokens(tokens) => *tokens,
            Effort::Word(word) => match word.as_str() {
                "none" => 0,
                "minimal" | "low" => 1_024,
                "medium" => 8_192,
                _ => 24_576,
            },
        }
    }

    /// As a word.
    pub(crate) fn word(&self) -> String {
        match self {
            Effort::Word(word) => word.clone(),
            Effort::Tokens(0) => "none".to_owned(),
            Effort::Tokens(1..=2_048) => "low".to_owned(),
            Effort::Tokens(2_049..=16_384) => "medium".to_owned(),
            Effort::Tokens(_) => "high".to_owned(),
        }
    }
}

/// What a model says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) id: String,
    /// Texts, thoughts and calls.
    pub(crate) blocks: Vec<TalkBlock>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
}

impl Said {
    pub(crate) fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.blocks.iter().filter_map(|block| match block {
            TalkBlock::Call(call) => Some(call),
            _ => None,
        })
    }

    /// All of its text.
    pub(crate) fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            TalkBlock::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// All of its thoughts.
    pub(crate) fn thinking(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            TalkBlock::Thinking(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    End,
    Length,
    Calls,
    /// A text at which the client wanted it to end.
    Sequence(Option<String>),
    /// The provider's own rules.
    Filtered,
}

/// A piece of an answer that streams.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Begin {
        id: String,
    },
    Text(String),
    Thinking(String),
    CallBegins {
        id: String,
        name: String,
    },
    /// More of the last call's arguments, as JSON.
    Arguments(String),
    /// The provider says in the middle that it failed.
    Failed(String),
}
