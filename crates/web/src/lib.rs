//! The lane of the web: pages as text, the forward proxy, and what stands inside of TLS where the operator wants it seen.
//!
//! Whatever an agent asks of a site is one call: its URL, its fields and its body are judged before they leave, its answer
//! before it comes back, and the address that is dialled is the one that was judged. It refuses to follow a redirect without
//! another judgement, to carry a tunnel for another host than the one that was named, and to give credentials to anybody
//! but their own hosts.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panic"))]

pub mod actions;
mod answer;
mod binary;
mod bounds;
mod credentials;
mod decode;
mod exchange;
mod fetch;
mod fields;
pub mod fuzzing;
mod html;
mod lane;
mod meter;
mod proxy;
mod refuse;
mod reverse;
mod robots;
mod scan_api;
pub mod section;
mod site;
mod socket;

pub use actions::LANE;
pub use bounds::AgentBounds;
pub use credentials::{HostNames, SiteCredential, usual_before};
pub use lane::{FetchSettings, Intercept, Settings, Shared, WebLane};
pub use meter::{
    LEAVES, SITE_BYTES, SITE_CALLS, SITE_OPEN, SOCKET_MESSAGES, SiteDecision, SiteMeter, SiteWay,
};
pub use proxy::{LaneNow, ProxyService};
pub use refuse::problem;
pub use reverse::{ReverseProxy, ReverseService};
pub use robots::Robots;
pub use section::{SocketOrigin, WebMode};
pub use site::read_url;
pub use socket::SocketSettings;
