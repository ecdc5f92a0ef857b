//! `claim` and `next_work`: who takes what, so that no two take one item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{ItemLine, item, leased, limit, offset_page, writable};
use crate::model::item::ItemType;
use crate::model::{Lease, Project, Stamp, Status, WorkItem, bounds, problem};
use crate::store::{ItemFilter, Page, Tx};

/// What can be taken where no type is named: the others hold parts together.
const WORK: &[ItemType] = &[ItemType::Task, ItemType::Research, ItemType::Subtask];
/// Items that one item is said to wait for, at most.
const WAITS_TOLD: usize = 5;

/// What is done to a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAction {
    #[default]
    Claim,
    Renew,
    Release,
}

/// Arguments of `claim`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// claim (the default) takes an item; renew keeps it for longer; release gives it back.
    pub action: ClaimAction,
    /// The item: its id, or #7 for number 7. A claim without it takes the most urgent item that is ready.
    pub id: Option<String>,
    /// The token that the claim gave (renew, release).
    pub token: Option<i64>,
    /// How long the lease holds, in seconds; 900 where none is given, 86,400 at most.
    pub ttl_s: Option<u64>,
    /// Types that a claim without `id` takes; task, research and subtask where none is named.
    #[serde(rename = "type")]
    pub types: Option<Vec<ItemType>>,
    /// Takes a lease away from who holds it (release): history tells who did.
    pub force: bool,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(ClaimCall, keyed);

/// The answer of `claim`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClaimAnswer {
    /// The item; none where nothing is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<WorkItem>,
    /// The token of the lease: give it as lease_token to work_item_update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// When the lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What to do next.
    pub next: String,
}

/// Claims, renews or gives back.
pub fn change(tx: &Tx<'_>, project: &Project, call: &ClaimCall) -> Result<ClaimAnswer, Problem> {
    writable(project)?;
    let seconds = call.ttl_s.unwrap_or(bounds::LEASE_S_DEFAULT);
    if !(1..=bounds::LEASE_S_MAX).contains(&seconds) {
        return Err(Problem::argument(format!(
            "`ttl_s`: must be 1 to {}",
            bounds::LEASE_S_MAX
        )));
    }
    match (call.action, call.id.as_deref()) {
        (ClaimAction::Claim, None) => {
            let types = call
                .types
                .as_deref()
                .filter(|types| !types.is_empty())
                .unwrap_or(WORK);
            let ready = tx.ready(&project.stamp.id, tx.actor(), types, 1, 0)?;
            match ready.into_iter().next() {
                Some(item) => take(tx, item, seconds),
                None => Ok(ClaimAnswer {
                    next: "nothing is ready; next_work with want blocked says what waits for what"
                        .to_owned(),
                    ..ClaimAnswer::default()
                }),
            }
        }
        (ClaimAction::Claim, Some(id)) => take(tx, item(tx, project, "id", id)?, seconds),
        (_, None) => Err(Problem::argument("`id`: is missing: which item?")),
        (ClaimAction::Renew, Some(id)) => {
            renew(tx, item(tx, project, "id", id)?, call.token, seconds)
        }
        (ClaimAction::Release, Some(id)) => release(tx, item(tx, project, "id", id)?, call),
    }
}

fn take(tx: &Tx<'_>, mut item: WorkItem, seconds: u64) -> Result<ClaimAnswer, Problem> {
    if item.status.is_over() || item.status == Status::Blocked {
        let why = item
            .blocked_reason
            .as_deref()
            .map(|why| format!(" ({why})"))
            .unwrap_or_default();
        return Err(problem(
            "not_claimable",
            format!(
                "item #{} is {}{why}; claim without id takes what is ready",
                item.number,
                item.status.as_str()
            ),
        ));
    }
    let waits = tx.waits_for(&item.stamp.id, WAITS_TOLD)?;
    if !waits.is_empty() {
        let names: Vec<String> = waits
            .iter()
            .map(|other| format!("#{} {:?}", other.number, other.title))
            .collect();
        return Err(problem(
            "waits",
            format!(
                "item #{} waits for {}; claim one of those, or claim without id",
                item.number,
                names.join(", ")
            ),
        ));
    }
    let id = Lease::id_of(&item.stamp.id);
    let mut lease = tx.find::<Lease>(&id)?.unwrap_or_else(|| Lease {
        stamp: Stamp {
            id,
            project: item.stamp.project.clone(),
            ..Stamp::default()
        },
        item: item.stamp.id.clone(),
        ..Lease::default()
    });
    if let Some(holder) = lease.holder(tx.now()) {
        return Err(leased(&lease, holder));
    }
    lease.agent = Some(tx.actor().to_owned());
    lease.token += 1;
    lease.until = tx.after(seconds);
    tx.put(&mut lease)?;
    item.assignee = Some(tx.actor().to_owned());
    item.set_status(Status::Active, tx.now())?;
    tx.put(&mut item)?;
    Ok(held(item, &lease))
}

fn held(item: WorkItem, lease: &Lease) -> ClaimAnswer {
    ClaimAnswer {
        next: format!(
            "it is yours until {}; renew before that, and call work_item_update with version {}, lease_token {} and status completed when it is done",
            lease.until, item.stamp.version, lease.token
        ),
        item: Some(item),
        token: Some(lease.token),
        until: Some(lease.until.clone()),
    }
}

fn renew(
    tx: &Tx<'_>,
    item: WorkItem,
    token: Option<i64>,
    seconds: u64,
) -> Result<ClaimAnswer, Problem> {
    let token = token
        .ok_or_else(|| Problem::argument("`token`: is missing: the one that the claim gave"))?;
    let lease = super::guard(tx, &item.stamp.id, Some(token))?;
    let mut lease = lease.ok_or_else(|| problem("lease_lost", "there is no lease of this item"))?;
    lease.until = tx.after(seconds);
    tx.put(&mut lease)?;
    Ok(held(item, &lease))
}

fn release(tx: &Tx<'_>, mut item: WorkItem, call: &ClaimCall) -> Result<ClaimAnswer, Problem> {
    let lease = match (call.force, call.token) {
        (true, _) => tx.find::<Lease>(&Lease::id_of(&item.stamp.id))?,
        (false, Some(token)) => super::guard(tx, &item.stamp.id, Some(token))?,
        (false, None) => {
            return Err(Problem::argument(
                "`token`: is missing: the one that the claim gave",
            ));
        }
    };
    let lease = lease.filter(|lease| lease.agent.is_some());
    let mut lease = lease
        .ok_or_else(|| problem("lease_lost", format!("nobody holds item #{}", item.number)))?;
    lease.agent = None;
    lease.until = tx.now().to_owned();
    tx.put(&mut lease)?;
    if item.status == Status::Active {
        item.assignee = None;
        item.set_status(Status::Planned, tx.now())?;
        tx.put(&mut item)?;
    }
    Ok(ClaimAnswer {
        item: Some(item),
        next: "it is free again".to_owned(),
        ..ClaimAnswer::default()
    })
}

/// Which work is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    #[default]
    Ready,
    Blocked,
    Mine,
}

/// Arguments of `next_work`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NextCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// ready (the default): what can be taken now, the most urgent first; blocked: what waits, and for what; mine: what is assigned to you and not over.
    pub want: Want,
    /// Only these types; task, research and subtask where none is named (ready).
    #[serde(rename = "type")]
    pub types: Option<Vec<ItemType>>,
    /// Most items, 1 to 100; 20 where none is given.
    pub limit: Option<u32>,
    /// Where the list goes on.
    pub cursor: Option<String>,
}
super::scoped!(NextCall);

/// An item, and what it waits for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingItem {
    #[serde(flatten)]
    pub line: ItemLine,
    /// The open items that it waits for, at most 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<ItemLine>,
}

/// The answer of `next_work`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NextAnswer {
    /// The items.
    pub items: Vec<WaitingItem>,
    /// Where the list goes on; none at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What is next, or what waits.
pub fn next(tx: &Tx<'_>, project: &Project, call: &NextCall) -> Result<NextAnswer, Problem> {
    let mark = QueryMark::of(
        "next_work",
        &format!("{}/{}", project.stamp.id, tx.actor()),
        call,
    );
    let limit = limit(call.limit)?;
    let place = mark.place(call.cursor.as_deref())?;
    let offset = usize::try_from(place.unwrap_or_default()).unwrap_or(usize::MAX);
    let id = &project.stamp.id;
    let (items, next) = match call.want {
        Want::Ready => {
            let types = call
                .types
                .as_deref()
                .filter(|types| !types.is_empty())
                .unwrap_or(WORK);
            offset_page(
                tx.ready(id, tx.actor(), types, limit + 1, offset)?,
                limit,
                offset,
            )
        }
        Want::Blocked => offset_page(tx.blocked(id, limit + 1, offset)?, limit, offset),
        Want::Mine => {
            let of = ItemFilter {
                assignee: Some(tx.actor().to_owned()),
                statuses: vec![Status::Planned, Status::Active, Status::Blocked],
                ..ItemFilter::default()
            };
            let before = place;
            let found = tx.items(id, &of, Page { before, limit })?;
            let items = found.rows.into_iter().map(|(_, item)| item);
            (items.collect(), found.next)
        }
    };
    let items = items.iter().map(|item| waiting(tx, item, call.want));
    Ok(NextAnswer {
        items: items.collect::<Result<_, _>>()?,
        cursor: next.map(|place| mark.cursor(place)),
    })
}

fn waiting(tx: &Tx<'_>, item: &WorkItem, want: Want) -> Result<WaitingItem, Problem> {
    let waits = match want {
        Want::Ready => Vec::new(),
        Want::Blocked | Want::Mine => tx.waits_for(&item.stamp.id, WAITS_TOLD)?,
    };
    Ok(WaitingItem {
        line: ItemLine::from(item),
        waits_for: waits.iter().map(ItemLine::from).collect(),
    })
}
