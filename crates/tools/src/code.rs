//! Code search: finds code by meaning, by name and by text, in the trees that its settings allow.
//!
//! Files become pieces and symbols (`parse`), pieces an index that is always checked against the files
//! (`engine`), and its answers the tools of an MCP server (`service`, which `serve` speaks MCP for). It refuses to read outside its roots.

pub mod api;
pub mod parse;

mod fresh;
mod index;
mod jobs;
mod place;
mod rank;
mod time;
mod tree;
mod trigram;
mod walk;

mod engine;

pub mod table;

pub mod embed;
mod vectors;

mod codebase;
mod dense;
mod say;
mod service;

pub use service::{Call, Code, Desk, Settings};
