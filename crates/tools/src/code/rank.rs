//! Which pieces fit a question best.
//!
//! A question is classed by what it looks like ([`Class`]), made a query over the fields of the index ([`Plan`]), and the best
//! few hundred pieces that it finds are put in order by what single documents do not show ([`order`]). Every constant
//! stands in [`table`]; none was set for one repository.

mod language;
pub(super) mod near;
pub(super) mod order;
mod plan;
pub(super) mod prior;
pub(super) mod table;

pub(super) use plan::{Class, Plan, parts_of_name};
