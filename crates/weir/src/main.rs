//! weir: the gateway that every agent's traffic goes through.
//!
//! The binary is where things meet: the command line, the configuration, and the assembly of the crates
//! that do the work.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod admin;
mod assemble;
mod cli;
mod config;
mod coverage;
#[cfg(test)]
#[path = "../tests/echo/lane.rs"]
mod echo;
mod health;
mod lanes;
mod listen;
mod metrics;
mod notices;
mod ports;
mod refuse;
mod reload;
mod routes;
mod serve;
mod shared_store;
mod stopping;
mod wrap;

fn main() -> std::process::ExitCode {
    // Before the command line is read: there is a guard for each child server, and it has to be small.
    let code = net::children::run_guard().unwrap_or_else(cli::run);
    store::pkcs11::quiesce();
    code
}
