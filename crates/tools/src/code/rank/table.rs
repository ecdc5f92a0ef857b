//! Every constant of the ranking, in one place.

/// Weights of the fields for one kind of question, in the order of [`Scored`](crate::code::index::Scored): code, comments, names,
/// signatures, path.
pub(crate) type Weights = [f32; 5];

/// For questions in words.
pub(crate) const WORDS: Weights = [1.3, 0.9, 0.7, 0.5, 1.5];
/// For names.
pub(crate) const SYMBOL: Weights = [0.7, 0.2, 2.0, 0.8, 1.4];
/// For paths.
pub(crate) const PATH: Weights = [0.2, 0.1, 0.5, 0.1, 3.0];

/// How much the length of a chunk counts in each field, 0 to 1: `b` of BM25.
pub(crate) const LENGTHS: Weights = [0.5, 0.75, 0.5, 0.5, 0.9];

/// A whole identifier that has parts: rarer and surer than its parts.
pub(crate) const WHOLE: f32 = 1.3;
/// A word that is its own stem.
pub(crate) const PIECE: f32 = 1.0;
/// A word as it stands, where its stem is asked for, too.
pub(crate) const PIECE_BESIDE_STEM: f32 = 0.45;
/// The stem of a word.
pub(crate) const STEM: f32 = 0.65;
/// Two words of a question written as one.
pub(crate) const PAIR: f32 = 0.4;
/// A word that was not found, replaced by one that is spelt alike.
pub(crate) const RESPELT: f32 = 0.7;
/// Words that say little in a question of several words.
pub(crate) const STOP_WORD: f32 = 0.05;

/// A name that is defined as it stands in the question.
pub(crate) const DEFINES_SYMBOL: f32 = 3.0;
/// The same, where its parent fits too.
pub(crate) const DEFINES_QUALIFIED: f32 = 5.0;
/// The same, where the question has other words besides.
pub(crate) const DEFINES_AMONG_WORDS: f32 = 0.9;
/// A plain word of a question that is also a name.
pub(crate) const DEFINES_PLAIN: f32 = 0.15;

/// What a name adds that is spelt as in the question, as a share of what the name itself weighs.
pub(crate) const SPELT: f32 = 0.7;

/// What is left of the weight of a language's name that is a preference.
pub(crate) const LANGUAGE_WORD: f32 = 0.2;
/// What files in other languages than the preferred one keep of their score.
pub(crate) const OTHER_LANGUAGE: f32 = 0.6;
/// The share of files over which their language tells no file from others.
pub(crate) const LANGUAGE_SHARE_MAX: f32 = 0.9;
/// Hits of one file among some that follow each other, before other files have their turn.
pub(crate) const HITS_OF_FILE: usize = 5;
/// How many hits these are: as many as an answer has.
pub(crate) const SPREAD_OVER: usize = 10;

/// Words of questions about code.
pub(crate) const CODE_WORDS: &[&str] = &[
    "call",
    "called",
    "caller",
    "callers",
    "calls",
    "class",
    "classes",
    "code",
    "constructor",
    "defined",
    "definition",
    "enum",
    "function",
    "functions",
    "handler",
    "implementation",
    "implemented",
    "implements",
    "interface",
    "macro",
    "method",
    "methods",
    "module",
    "struct",
    "trait",
    "type",
    "variable",
];

/// Candidates that are put in order.
pub(crate) const CANDIDATES: usize = 200;
/// The most that words which stand together add, as a share of the score.
pub(crate) const PROXIMITY: f32 = 0.7;
/// Words over which nearness is looked at.
pub(crate) const PROXIMITY_TERMS_MAX: usize = 8;
/// What a file's stem adds when the question has all its words, as a share of the score.
pub(crate) const STEM_OF_FILE: f32 = 0.3;
/// The same for the directory that it is in.
pub(crate) const PARENT_OF_FILE: f32 = 0.1;
/// What a path adds that has all words of a question, as a share of the score; the part that it has counts by its cube.
pub(crate) const COVERS_QUESTION: f32 = 1.0;
/// What a file's stem adds when it is the name that is asked for, as a share of the score.
pub(crate) const STEM_IS_NAME: f32 = 1.5;
/// What each other candidate of the same file adds, as a share of the score.
pub(crate) const COHERENCE: f32 = 0.015;
/// The most that they add.
pub(crate) const COHERENCE_MAX: f32 = 0.12;
/// What each hit of a file before it leaves to the next.
pub(crate) const SATURATION: f32 = 0.94;
/// The least that a place gets which vectors rank first, as a share of the best score by words.
pub(crate) const VECTORS: f32 = 0.6;
/// The constant of reciprocal ranks (Cormack et al., 2009).
pub(crate) const RECIPROCAL: f32 = 60.0;

/// Words of questions that say little about what is looked for.
pub(crate) const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "code", "could", "did", "do", "does", "each", "find", "for", "from", "given", "has", "have",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "our",
    "should", "show", "so", "some", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "would", "you", "your",
];
