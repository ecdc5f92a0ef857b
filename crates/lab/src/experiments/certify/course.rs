//! The course of a certificate: up to the knee, at it, over it both ways, and back; and what has to hold of all of it.

use std::time::Duration;

use crate::bench::asked::AskedServer;
use crate::bench::stand::Stand;
use crate::exit::Failure;
use crate::experiments::sweep::times;
use crate::facts::certificate::{
    CERTIFICATE_SCHEMA, Certificate, CertificateCriterion, CertificateTotals, StageFacts,
};
use crate::facts::level::CellFacts;
use crate::interrupt;
use crate::output::units::bound_of_none;
use crate::report::words::{count, micros, number};
use crate::result::{Note, Run};
use crate::stats::knee::{Knee, SHARE};
use crate::tally::Fault;

/// How long a step of the ladder to the knee is.
const STEP: &str = "1s";
/// Most connections of that ladder.
const CONNECTIONS_MAX: f64 = 1024.0;
/// Most wrong answers that a certificate shows.
const WRONG_MAX: usize = 50;
/// The shortest stage that certifies, in seconds, unless `--accept too-short` is given.
const STAGE_S_MIN: f64 = 5.0;

/// One certificate in the making.
pub(super) struct Course<'a> {
    asked: &'a AskedServer,
    stand: Stand,
    overload: u32,
    hold: Duration,
    knee: Option<Knee>,
    stages: Vec<StageFacts>,
    totals: CertificateTotals,
    /// By class, over everything.
    errors: std::collections::BTreeMap<String, u64>,
    /// Dropped where nothing may be dropped: up to the knee, and in closed loops.
    lost: u64,
    wrong: Vec<Note>,
    duplicates: Vec<u64>,
    /// Runs whose origin could not be asked, or counted otherwise than we did.
    unheard: Vec<String>,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        asked: &'a AskedServer,
        stand: Stand,
        overload: u32,
        hold: Duration,
    ) -> Course<'a> {
        Course {
            asked,
            stand,
            overload,
            hold,
            knee: None,
            stages: Vec::new(),
            totals: CertificateTotals::default(),
            errors: std::collections::BTreeMap::new(),
            lost: 0,
            wrong: Vec::new(),
            duplicates: Vec::new(),
            unheard: Vec::new(),
        }
    }

    /// Every stage, unless it is interrupted.
    pub(super) fn carry_out(&mut self) -> Result<(), Failure> {
        self.find_knee()?;
        let Some(knee) = self.knee else { return Ok(()) };
        let connections = (knee.level * 4.0).max(64.0).ceil();
        let share = |share: f64| (share * knee.rate).floor().max(1.0);
        self.open("80 % of the knee's rate", share(0.8), connections, false)?;
        self.closed("the knee", knee.level)?;
        for times in times(self.overload) {
            self.closed(
                &format!("{times} times the knee's connections"),
                (knee.level * f64::from(times)).ceil(),
            )?;
        }
        let rate = (knee.rate * f64::from(self.overload)).ceil();
        self.open(
            &format!("{} times the knee's rate", self.overload),
            rate,
            connections,
            true,
        )?;
        self.open(
            "60 % of the knee's rate, after the overload",
            share(0.6),
            connections,
            false,
        )
    }

    /// A short ladder; its requests count too. Connections that were given are the knee's.
    fn find_knee(&mut self) -> Result<(), Failure> {
        if let Some(given) = self.asked.flag("connections") {
            let level: f64 = given.parse().unwrap_or(1.0);
            let cell = self.closed("the knee, as it was given", level)?;
            self.knee = cell.map(|cell| Knee {
                index: 0,
                level,
                rate: cell.rate,
                kneedle: None,
                usl_highest: None,
                is_bent: true,
            });
            return Ok(());
        }
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut at = 1.0;
        while at <= CONNECTIONS_MAX {
            let connections = at.to_string();
            let label = format!("the ladder, {at} connections");
            let flags = [
                ("connections", connections.as_str()),
                ("duration", STEP),
                ("warmup", "0s"),
            ];
            let Some(cell) =
                self.stage(&label, format!("closed, {at} connections"), &flags, false)?
            else {
                break;
            };
            points.push((at, cell.rate));
            let best = points[..points.len().saturating_sub(2)]
                .iter()
                .map(|p| p.1)
                .fold(0.0, f64::max);
            if points.len() > 2 && points.iter().rev().take(2).all(|p| best >= SHARE * p.1) {
                break;
            }
            at *= 2.0;
        }
        self.knee = Knee::of(&points);
        Ok(())
    }

    fn closed(&mut self, label: &str, connections: f64) -> Result<Option<CellFacts>, Failure> {
        let at = connections.to_string();
        self.stage(
            label,
            format!("closed, {connections} connections"),
            &[("connections", at.as_str())],
            false,
        )
    }

    fn open(
        &mut self,
        label: &str,
        rate: f64,
        connections: f64,
        may_drop: bool,
    ) -> Result<(), Failure> {
        let (rate, connections) = (rate.to_string(), connections.to_string());
        let queue = self
            .knee
            .map_or(1000.0, |knee| knee.rate.ceil())
            .to_string();
        let flags = [
            ("rate", rate.as_str()),
            ("connections", connections.as_str()),
            ("queue", queue.as_str()),
        ];
        let load = format!("open, {rate} arrivals a second");
        self.stage(label, load, &flags, may_drop).map(drop)
    }

    /// One stage; none where it was interrupted before.
    fn stage(
        &mut self,
        label: &str,
        load: String,
        flags: &[(&str, &str)],
        may_drop: bool,
    ) -> Result<Option<CellFacts>, Failure> {
        if interrupt::asked() {
            return Ok(None);
        }
        let without = if flags.iter().any(|(name, _)| *name == "rate") {
            &["pause"][..]
        } else {
            &[]
        };
        let run = self.stand.run(without, flags)?.run;
        let found = CellFacts::of(&run);
        let failed = match run.total.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let p99 = found
            .p99_us
            .map_or(String::new(), |us| format!(", p99 {}", micros(us)));
        self.asked.tell(&format!(
            "certify: {label}: {}/s{p99}{failed}",
            number(found.rate)
        ));
        self.count(label, &run, may_drop);
        self.stages.push(StageFacts {
            label: label.to_owned(),
            load,
            found: found.clone(),
        });
        Ok(Some(found))
    }

    /// Adds a run to what is certified, its warm-up too.
    fn count(&mut self, label: &str, run: &Run, may_drop: bool) {
        let total = &run.total;
        self.totals.requests += total.requests;
        self.totals.failed += total.failed;
        self.totals.dropped += total.dropped;
        let wrong = total
            .errors
            .get(Fault::Integrity.as_str())
            .copied()
            .unwrap_or(0);
        self.totals.compared += total.good + wrong;
        for (class, n) in &total.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
        self.lost += if may_drop { 0 } else { total.dropped };
        let room = WRONG_MAX - self.wrong.len();
        self.wrong
            .extend(run.notes.iter().take(room).map(|note| Note {
                what: format!("{label}: {}", note.what),
                ..note.clone()
            }));
        if self.asked.flag("origin").is_none() {
            return;
        }
        let Some(origin) = &run.origin else {
            self.unheard
                .push(format!("{label}: the origin could not be asked"));
            return;
        };
        *self.totals.origin_distinct.get_or_insert(0) += origin.distinct;
        *self.totals.origin_duplicates.get_or_insert(0) += origin.duplicates;
        self.duplicates.extend(&origin.first_duplicates);
        if origin.distinct < total.good {
            self.unheard.push(format!(
                "{label}: {} requests were answered, and {} came to the origin",
                count(total.good),
                count(origin.distinct)
            ));
        }
    }

    /// What it comes to.
    ///
    /// # Errors
    ///
    /// It cannot be sealed: a defect of the lab.
    pub(super) fn certificate(mut self, command: Vec<String>) -> Result<Certificate, Failure> {
        let partial = interrupt::asked();
        self.totals.failed_share_bound =
            (self.totals.failed == 0).then(|| bound_of_none(self.totals.requests));
        let mut criteria = vec![self.errorless(), self.bytes()];
        criteria.extend(self.once());
        criteria.extend([
            self.lossless(),
            self.overloaded(),
            self.long_enough(),
            whole(partial),
        ]);
        let certificate = Certificate {
            schema: CERTIFICATE_SCHEMA.to_owned(),
            passed: criteria.iter().all(|c| c.holds),
            setting: self.stand.setting(self.asked, command, partial),
            criteria,
            stages: self.stages,
            totals: self.totals,
            wrong: self.wrong,
            sha256: String::new(),
        };
        let sealed = certificate.sealed();
        sealed.map_err(|why| {
            Failure::new(
                format!("the certificate cannot be sealed: {why}"),
                "this is a fault of weir lab",
            )
        })
    }

    fn errorless(&self) -> CertificateCriterion {
        let (failed, all) = (self.totals.failed, self.totals.requests);
        let classes: Vec<String> = self
            .errors
            .iter()
            .map(|(class, n)| format!("{class} {n}"))
            .collect();
        let evidence = match failed {
            0 => format!(
                "0 of {} failed; with 95 % confidence the share that fails is under {:.2e}",
                count(all),
                bound_of_none(all)
            ),
            _ => format!(
                "{} of {} failed ({}){}",
                count(failed),
                count(all),
                classes.join(", "),
                self.first_numbers()
            ),
        };
        criterion(
            "errors",
            "No request fails",
            failed == 0 && all > 0,
            evidence,
        )
    }

    fn first_numbers(&self) -> String {
        let named = self.wrong.iter().take(3);
        let named: Vec<String> = named
            .map(|note| format!("request {} ({})", note.number, note.fault))
            .collect();
        match named.is_empty() {
            true => String::new(),
            false => format!(", the first: {}", named.join(", ")),
        }
    }

    fn bytes(&self) -> CertificateCriterion {
        let wrong = self
            .errors
            .get(Fault::Integrity.as_str())
            .copied()
            .unwrap_or(0);
        let first = self
            .wrong
            .iter()
            .find(|note| note.fault == Fault::Integrity.as_str());
        let evidence = match first {
            None if wrong == 0 => format!(
                "{} answers were compared byte for byte, and all were right",
                count(self.totals.compared)
            ),
            None => format!(
                "{} of {} answers were wrong",
                count(wrong),
                count(self.totals.compared)
            ),
            Some(note) => format!(
                "{} of {} answers were wrong; the first is request {}: {}",
                count(wrong),
                count(self.totals.compared),
                note.number,
                note.what
            ),
        };
        criterion(
            "bytes",
            "Every byte of every answer is right",
            wrong == 0 && self.totals.compared > 0,
            evidence,
        )
    }

    fn once(&self) -> Option<CertificateCriterion> {
        let duplicates = self.totals.origin_duplicates;
        if duplicates.is_none() && self.unheard.is_empty() {
            return None;
        }
        let evidence = match (duplicates, self.unheard.first()) {
            (_, Some(why)) => why.clone(),
            (Some(0), None) => format!(
                "{} requests came to the origin, each of them once",
                count(self.totals.origin_distinct.unwrap_or(0))
            ),
            (more, None) => format!(
                "{} requests were executed more than once, such as {}",
                count(more.unwrap_or(0)),
                self.duplicates
                    .iter()
                    .take(5)
                    .map(u64::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        let holds = duplicates == Some(0) && self.unheard.is_empty();
        Some(criterion(
            "once",
            "Every request is executed at the origin, and once",
            holds,
            evidence,
        ))
    }

    fn lossless(&self) -> CertificateCriterion {
        let shed = self.totals.dropped - self.lost;
        let mut evidence = format!(
            "{} requests that were due were never sent, up to the knee",
            count(self.lost)
        );
        if shed > 0 {
            evidence += &format!(
                "; {} were shed by the generator's queue when more came than is carried",
                count(shed)
            );
        }
        criterion(
            "sent",
            "Every request up to the knee is sent",
            self.lost == 0,
            evidence,
        )
    }

    fn overloaded(&self) -> CertificateCriterion {
        let Some(knee) = &self.knee else {
            let why = "its limit was not found: fewer than two levels were measured".to_owned();
            return criterion(
                "overload",
                "It was asked for more than it carries",
                false,
                why,
            );
        };
        let label = format!("{} times the knee's connections", self.overload);
        let most = self.stages.iter().find(|stage| stage.label == label);
        let evidence = match most {
            Some(stage) => format!(
                "the knee is {} a second at {} connections; at {} times as many connections it carried {} a second",
                number(knee.rate),
                knee.level,
                self.overload,
                number(stage.found.rate)
            ),
            None => "the overload was not reached".to_owned(),
        };
        let is_reached = self
            .stages
            .iter()
            .any(|stage| stage.label.contains("after the overload"));
        let holds = knee.is_bent && most.is_some() && is_reached;
        criterion(
            "overload",
            "It was asked for more than it carries, both ways, and came back",
            holds,
            evidence,
        )
    }

    fn long_enough(&self) -> CertificateCriterion {
        let hold = self.hold.as_secs_f64();
        let is_accepted = self
            .asked
            .flag("accept")
            .is_some_and(|list| list.contains("too-short"));
        let mut evidence = format!(
            "each stage beyond the ladder holds its load for {hold} s (at least {STAGE_S_MIN} s)"
        );
        if hold < STAGE_S_MIN && is_accepted {
            evidence += "; shorter ones were accepted by --accept too-short";
        }
        criterion(
            "length",
            "Every stage is long enough",
            hold >= STAGE_S_MIN || is_accepted,
            evidence,
        )
    }
}

fn whole(partial: bool) -> CertificateCriterion {
    let evidence = if partial {
        "it was interrupted"
    } else {
        "every stage was carried out"
    };
    criterion("whole", "It went to its end", !partial, evidence.to_owned())
}

fn criterion(id: &str, text: &str, holds: bool, evidence: String) -> CertificateCriterion {
    CertificateCriterion {
        id: id.to_owned(),
        text: text.to_owned(),
        holds,
        evidence,
    }
}
