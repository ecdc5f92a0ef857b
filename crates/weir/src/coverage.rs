//! What is looked for and what is done about it, lane by lane: so that nobody has to guess what a
//! configuration covers.
//!
//! It tells what the settings say. Whether a rule finds what it should is for the tests of the rules.

use std::time::{SystemTime, UNIX_EPOCH};

use scan::{Action, Class, Direction, Place, Rule};
use serde_json::{Value, json};

use crate::config::Settings;
use crate::lanes;

/// What the scan does in each place.
pub(crate) struct Coverage {
    rows: Vec<Row>,
    /// Overrides for one target or agent, which the rows do not show.
    overrides: usize,
    /// Exemptions that are in force.
    exemptions: usize,
}

/// One lane, direction and class.
struct Row {
    lane: &'static str,
    direction: Direction,
    class: Class,
    /// Rules by their action, as in [`Action::ALL`].
    rules: [usize; 4],
}

impl Coverage {
    pub(crate) fn new(settings: &Settings) -> Coverage {
        let mut rows = Vec::new();
        for lane in lanes::scanned() {
            for direction in Direction::ALL {
                let classes = Class::ALL
                    .into_iter()
                    .filter(|class| judged(*class, direction));
                rows.extend(classes.map(|class| Row::new(settings, lane.name, direction, class)));
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Coverage {
            rows,
            overrides: settings.scan.overrides_of_some(),
            exemptions: settings
                .scan
                .exemptions_at(now.unwrap_or_default().as_secs()),
        }
    }

    /// A line for each direction and what is done in it, with all lanes in which that is done, and one for what holds in part only.
    ///
    /// Example: `outgoing (mcp, llm): secret refuse 640; personal refuse 12, off 2`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let same = |a: &Row, b: &Row| (a.lane, a.direction) == (b.lane, b.direction);
        let mut places: Vec<(Direction, String, Vec<&str>)> = Vec::new();
        for rows in self.rows.chunk_by(same) {
            let classes: Vec<String> = rows.iter().map(Row::text).collect();
            let (lane, direction, text) = (rows[0].lane, rows[0].direction, classes.join("; "));
            let known = places
                .iter_mut()
                .find(|place| (place.0, &place.1) == (direction, &text));
            match known {
                Some(place) => place.2.push(lane),
                None => places.push((direction, text, vec![lane])),
            }
        }
        let places = places.iter().map(|(direction, text, lanes)| {
            format!("{} ({}): {text}", direction.as_str(), lanes.join(", "))
        });
        let parts = format!(
            "overrides for one target or agent: {}, exemptions in force: {}",
            self.overrides, self.exemptions
        );
        places.chain([parts]).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({ "coverage": rows, "overrides": self.overrides, "exemptions": self.exemptions })
    }
}

impl Row {
    fn new(settings: &Settings, lane: &'static str, direction: Direction, class: Class) -> Row {
        let place = Place {
            lane,
            ..direction.into()
        };
        let own = settings.scan.rules.iter().copied();
        let of_class = |rule: &&Rule| rule.class == class;
        let mut rules = [0; 4];
        for rule in scan::rules().iter().chain(own).filter(of_class) {
            rules[settings.scan.action(rule, place) as usize] += 1;
        }
        Row {
            lane,
            direction,
            class,
            rules,
        }
    }

    /// Actions that some rules have, the strongest first.
    fn actions(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let actions = Action::ALL.into_iter().zip(self.rules).rev();
        let some = actions.filter(|(_, rules)| *rules > 0);
        some.map(|(action, rules)| (action.as_str(), rules))
    }

    fn text(&self) -> String {
        let actions = self.actions();
        let actions: Vec<String> = actions
            .map(|(action, rules)| format!("{action} {rules}"))
            .collect();
        format!("{} {}", self.class.as_str(), actions.join(", "))
    }

    fn to_json(&self) -> Value {
        let actions: serde_json::Map<String, Value> = self
            .actions()
            .map(|(action, rules)| (action.to_owned(), rules.into()))
            .collect();
        json!({
            "lane": self.lane,
            "direction": self.direction.as_str(),
            "scanner": self.class.as_str(),
            "rules": actions,
        })
    }
}

/// Whether texts of a direction are held against a class at all: commands, URLs and chains are judged in
/// calls, tools where a server describes them.
fn judged(class: Class, direction: Direction) -> bool {
    match class {
        Class::Secret | Class::Personal | Class::Injection => true,
        Class::Command | Class::Url | Class::Chain => direction == Direction::Outgoing,
        Class::Tool => direction == Direction::Description,
    }
}
