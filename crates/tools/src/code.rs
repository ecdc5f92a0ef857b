//! Code search: finds code by meaning, by name and by text, in the trees that its settings allow.
//!
//! Files become pieces and symbols (`parse`), pieces an index that is always checked against the files
//! (`engine`), and its answers the tools of an MCP server (`server`). It refuses to read outside its roots.

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

pub mod call;
pub mod table;

pub mod desk;

pub mod embed;
pub mod vectors;

pub mod fence;
pub mod http;
pub mod memory;
pub mod server;

mod codebase;
mod dense;
mod lines;
mod say;
mod top;
