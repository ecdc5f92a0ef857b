//! x

pub mod cgroup;
pub mod find;
pub mod host;
pub mod machine;
pub mod own;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod read;
pub mod scrape;
pub mod series;
pub mod tree;
