//! What is in force: swapped whole when the configuration is loaded again.

use std::collections::HashMap;
use std::net::IpAddr;

use base::{Destination, Name, Resource};
use policy::Policies;
use scan::Engine;

use crate::budget::Budget;
use crate::reach::Reach;

/// What is in force.
pub struct Rules {
    pub policies: Policies,
    pub engine: Engine,
    pub rates: Rates,
    /// The operator's budgets of models.
    pub budgets: Vec<Budget>,
    /// Where each configured server may be.
    pub reach: HashMap<Name, Reach>,
}

/// How much there may be in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Calls of one agent.
    pub agent_per_minute: u32,
    /// Tokens of models for one agent, where they are limited.
    pub agent_tokens_per_minute: Option<u32>,
    /// Calls of agents from one address, where they are limited.
    pub address_per_minute: Option<u32>,
    /// Requests without a good key, for each address.
    pub strangers_per_minute: u32,
}

impl Rates {
    /// Those of an agent, and none besides that could be met.
    pub fn of_agent(agent_per_minute: u32) -> Rates {
        Rates {
            agent_per_minute,
            agent_tokens_per_minute: None,
            address_per_minute: None,
            strangers_per_minute: u32::MAX,
        }
    }
}

impl Rules {
    /// Where a resource may be dialled; nothing where it may not be dialled at all.
    pub fn reach_of(&self, resource: &Resource) -> Option<&Reach> {
        match resource.destination() {
            Destination::Configured(name) => self.reach.get(name),
            Destination::Site(_) | Destination::Gateway => None,
        }
    }

    /// Whether a resource may be dialled at this address. A site may be at every public address, and at others where
    /// `scan.urls.internal` names its host or their network.
    pub(crate) fn may_dial(&self, resource: &Resource, address: IpAddr) -> bool {
        match resource.destination() {
            Destination::Site(site) => {
                Reach::default().allows(address)
                    || self.engine.lets_inside(&site.host, address.to_canonical())
            }
            Destination::Configured(_) | Destination::Gateway => self
                .reach_of(resource)
                .is_some_and(|reach| reach.allows(address)),
        }
    }

    /// Whether the resource's name is the operator's and not the agent's.
    pub(crate) fn is_configured(&self, resource: &Resource) -> bool {
        self.reach_of(resource).is_some()
    }
}
