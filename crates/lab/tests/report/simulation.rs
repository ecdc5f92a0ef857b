//! A run that nobody made: two flows, a ramp, a freeze and failures, drawn from a seed, for the report to show.

use std::collections::BTreeMap;

use lab::result::{
    Ceilings, Criterion, FlowResult, HostSample, KindResult, Machine, Meta, Noise, Note,
    OriginCounts, Point, Ports, Quantiles, Run, SCHEMA, StepResult, SubjectResult, SubjectSample,
    SubjectStep, Summary, ThresholdResult, Validity, Verdict, Watched, spectrum,
};
use lab::tally::{Distribution, Fault, Metric, Tally};

/// The server answers nothing between these instants.
const FREEZE_S: (f64, f64) = (30.0, 32.0);
/// It fails more often between these.
const TROUBLE_S: (f64, f64) = (40.0, 43.0);
const END_S: f64 = 60.0;

/// A stage: name, kind, level at its begin and its end, begin and end in seconds.
type Stage = (&'static str, &'static str, f64, f64, f64, f64);

const OPEN: &[Stage] = &[
    ("warm-up", "warm-up", 200.0, 200.0, 0.0, 8.0),
    ("to 900/s", "ramp", 200.0, 900.0, 8.0, 20.0),
    ("hold900", "hold", 900.0, 900.0, 20.0, 50.0),
    ("down", "ramp", 900.0, 0.0, 50.0, 60.0),
];
const CLOSED: &[Stage] = &[
    ("warm-up", "warm-up", 16.0, 16.0, 0.0, 8.0),
    ("hold16", "hold", 16.0, 16.0, 8.0, 60.0),
];

/// What is counted of one flow.
struct Flow {
    stages: &'static [Stage],
    steps: Vec<Tally>,
    /// By interval of one second of its end: what was counted, sent, and in each cell.
    points: Vec<(Tally, BTreeMap<u16, u64>)>,
    /// When each request was due and when it ended.
    spans: Vec<(f64, f64)>,
    draw: fastrand::Rng,
}

impl Flow {
    fn new(stages: &'static [Stage], seed: u64) -> Flow {
        Flow {
            stages,
            steps: vec![Tally::default(); stages.len()],
            points: vec![Default::default(); END_S as usize],
            spans: Vec::new(),
            draw: fastrand::Rng::with_seed(seed),
        }
    }

    fn level(&self, t: f64) -> f64 {
        let stage = self.stages.iter().find(|s| s.4 <= t && t < s.5);
        stage.map_or(0.0, |s| s.2 + (s.3 - s.2) * (t - s.4) / (s.5 - s.4))
    }

    /// A service time in seconds with a median and a long tail.
    fn took(&mut self, median_s: f64, spread: f64) -> f64 {
        let (a, b) = (1.0 - self.draw.f64(), self.draw.f64());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        median_s * (spread * normal).exp()
    }

    /// One request that was due at an instant; answers when it ended.
    fn request(&mut self, due: f64, took: f64, bytes: u64) -> f64 {
        let lag = self.draw.f64().powi(4) * 80e-6;
        let sent = due + lag;
        let frozen = FREEZE_S.0 <= sent && sent < FREEZE_S.1;
        let done = if frozen { FREEZE_S.1 } else { sent } + took;
        let trouble = TROUBLE_S.0 <= due && due < TROUBLE_S.1;
        let fault = match self.draw.f64() {
            x if trouble && x < 0.08 => Some((Fault::Server, 503)),
            x if trouble && x < 0.11 => Some((Fault::Reset, 0)),
            x if x < 0.0004 => Some((Fault::Limited, 429)),
            _ => None,
        };
        let stage = self
            .stages
            .iter()
            .position(|s| s.4 <= due && due < s.5)
            .unwrap();
        let ended = (done as usize).min(self.points.len() - 1);
        let ns = |t: f64| (t * 1e9) as u64;
        let (point, cells) = &mut self.points[ended];
        for tally in [&mut self.steps[stage], point] {
            tally.bytes_out += bytes;
            tally.bytes_in += bytes + 180;
            match fault {
                None => tally.good(ns(due), ns(sent), ns(done)),
                Some((fault, _)) => tally.failed(fault, ns(due), ns(done)),
            }
            match fault {
                None => tally.status(200),
                Some((_, 0)) => {}
                Some((_, status)) => tally.status(status),
            }
        }
        if fault.is_none() {
            let cell = ((done - due) * 1e6).log2() * 8.0;
            *cells.entry(cell as u16).or_default() += 1;
        }
        self.points[(sent as usize).min(END_S as usize - 1)].0.sent += 1;
        self.spans.push((due, done));
        done
    }

    fn in_flight(&self, t: f64) -> u64 {
        let spans = self.spans.iter();
        spans.filter(|(due, done)| *due <= t && *done > t).count() as u64
    }

    fn point(&self, second: usize) -> Point {
        let (tally, cells) = &self.points[second];
        let of = |distribution: Option<&Distribution>| {
            distribution.and_then(|d| Quantiles::of(d, 1000.0))
        };
        let found = of(tally.distribution(Metric::Response));
        let at = |pick: fn(&Quantiles) -> f64| found.as_ref().map(pick);
        Point {
            t_s: second as f64 + 1.0,
            seconds: 1.0,
            sent: tally.sent,
            completed: tally.completed,
            failed: tally.failures(),
            in_flight: self.in_flight(second as f64 + 1.0),
            errors: Summary::of(tally, 1.0).errors,
            p50_us: at(|q| q.p50),
            p90_us: at(|q| q.p90),
            p99_us: at(|q| q.p99),
            max_us: at(|q| q.max),
            cells: cells.iter().map(|(cell, n)| (*cell, *n)).collect(),
            ..Point::default()
        }
    }

    fn result(&self, name: &str, protocol: &str, model: &str, connections: usize) -> FlowResult {
        let (mut holds, mut seconds) = (Tally::default(), 0.0);
        let steps = self.stages.iter().zip(&self.steps).map(|(stage, tally)| {
            let lasting = stage.5 - stage.4;
            if stage.1 == "hold" {
                holds.add(tally);
                seconds += lasting;
            }
            StepResult {
                name: stage.0.into(),
                kind: stage.1.into(),
                from: stage.2,
                to: stage.3,
                begin_s: stage.4,
                summary: Summary::of(tally, lasting),
            }
        });
        let steps: Vec<StepResult> = steps.collect();
        let metrics = [Metric::Response, Metric::Service, Metric::Lag];
        let curves = metrics.iter().filter_map(|metric| {
            let curve = spectrum(holds.distribution(*metric)?);
            Some((metric.as_str().to_owned(), curve))
        });
        FlowResult {
            name: name.into(),
            targets: vec!["http://127.0.0.1:8080/".into()],
            protocol: protocol.into(),
            model: model.into(),
            connections,
            threads: 2,
            spectrum: curves.collect(),
            kinds: vec![KindResult {
                name: "request".into(),
                summary: Summary::of(&holds, seconds),
            }],
            measured: Summary::of(&holds, seconds),
            steps,
            series: (0..END_S as usize)
                .map(|second| self.point(second))
                .collect(),
        }
    }
}

fn open() -> Flow {
    let mut flow = Flow::new(OPEN, 7);
    let mut due = 0.0;
    while due < END_S {
        let level = flow.level(due).max(5.0);
        let took = flow.took(0.002 + level * 1.5e-6, 0.35);
        flow.request(due, took, 1024);
        due += -(1.0 - flow.draw.f64()).ln() / level;
    }
    flow
}

fn closed() -> Flow {
    let mut flow = Flow::new(CLOSED, 11);
    let mut free: Vec<f64> = (0..16).map(|i| f64::from(i) * 1e-3).collect();
    loop {
        let next = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let due = *next;
        if due >= END_S {
            return flow;
        }
        *next = f64::INFINITY;
        let took = flow.took(0.045, 0.3);
        let done = flow.request(due, took, 220);
        let slot = free.iter_mut().find(|t| t.is_infinite()).unwrap();
        *slot = done;
    }
}

/// The whole run.
pub(crate) fn run() -> Run {
    let flows = vec![
        open().result("checkout", "http1", "open", 256),
        closed().result("search (tools/call)", "mcp 2025-11-25", "closed", 16),
    ];
    let sum = |pick: fn(&FlowResult) -> u64| flows.iter().map(pick).sum::<u64>();
    let mut measured = flows[0].measured.clone();
    measured.requests = sum(|f| f.measured.requests);
    measured.rate = flows.iter().map(|f| f.measured.rate).sum();
    measured.failed = sum(|f| f.measured.failed);
    measured.good = sum(|f| f.measured.good);
    measured.failed_share = measured.failed as f64 / (measured.good + measured.failed) as f64;
    measured.watched_cpu_us = Some(412.0);
    measured.generator_cpu_us = Some(9.4);
    let mut total = measured.clone();
    total.errors.clear();
    (total.requests, total.good, total.failed, total.seconds) = (0, 0, 0, END_S);
    for step in flows.iter().flat_map(|flow| &flow.steps) {
        total.requests += step.summary.requests;
        total.good += step.summary.good;
        total.failed += step.summary.failed;
        for (class, n) in &step.summary.errors {
            *total.errors.entry(class.clone()).or_default() += n;
        }
    }
    Run {
        schema: SCHEMA.into(),
        requests: total.requests,
        validity: validity(),
        thresholds: thresholds(&measured),
        measured,
        total,
        flows,
        watched: watched(),
        origin: Some(OriginCounts {
            url: "http://127.0.0.1:8080/".into(),
            distinct: 41_102,
            duplicates: 0,
            first_duplicates: Vec::new(),
        }),
        notes: notes(),
        warnings: vec!["the target shares this machine's cores with the generator".into()],
        meta: meta(),
    }
}

fn validity() -> Validity {
    let criterion = |verdict, evidence: &str| Criterion {
        verdict,
        holds: true,
        evidence: evidence.into(),
    };
    Validity {
        verdict: Verdict::Valid,
        criteria: vec![
            criterion(
                Verdict::GeneratorBound,
                "lag p99 is 0.6 % of response p99 (at most 5 %)",
            ),
            criterion(
                Verdict::NoisyHost,
                "steal 0.2 % (at most 2 %), CPU pressure 3.1 % (at most 10 %)",
            ),
            criterion(Verdict::TooShort, "30 s were held (at least 5 s)"),
        ],
    }
}

fn thresholds(measured: &Summary) -> Vec<ThresholdResult> {
    let p99 = measured.latency["response"].p99 / 1000.0;
    let row = |metric: &str, expression: &str, found: Option<f64>, ok| ThresholdResult {
        metric: metric.into(),
        expression: expression.into(),
        found,
        ok,
        window: "the holds".into(),
    };
    vec![
        row("http_req_duration", "p(99)<250", Some(p99), p99 < 250.0),
        row(
            "http_req_failed",
            "rate<0.02",
            Some(measured.failed_share),
            measured.failed_share < 0.02,
        ),
        row("first_token", "p(95)<400", None, false),
    ]
}

fn subject(
    draw: &mut fastrand::Rng,
    name: &str,
    kind: &str,
    cores: f64,
    mib: f64,
) -> SubjectResult {
    let mut cpu_us = 0.0;
    let series = (0..=60).map(|t| {
        let t_s = f64::from(t);
        let frozen = t_s > FREEZE_S.0 && t_s <= FREEZE_S.1;
        let load = (t_s / 20.0).min(1.0) * if t_s > 50.0 { (60.0 - t_s) / 10.0 } else { 1.0 };
        let busy = if frozen {
            0.02
        } else {
            cores * load * (0.9 + 0.2 * draw.f64())
        };
        cpu_us += busy * 1e6;
        SubjectSample {
            t_s,
            cpu_us,
            rss_bytes: Some(((mib * (1.0 + load + t_s / 200.0)) * 1_048_576.0) as u64),
            threads: Some(4),
            descriptors: Some(270),
            ..SubjectSample::default()
        }
    });
    SubjectResult {
        name: name.into(),
        kind: kind.into(),
        series: series.collect(),
        steps: ["hold900", ""]
            .iter()
            .map(|step| SubjectStep {
                step: (*step).into(),
                seconds: 30.0,
                cpu_us: cores * 30e6,
                requests: 34_000,
                cpu_us_per_request: Some(cores * 30e6 / 34_000.0),
                cores,
                rss_bytes_max: Some((mib * 2.0 * 1_048_576.0) as u64),
                rss_bytes_end: Some((mib * 1.9 * 1_048_576.0) as u64),
                ..SubjectStep::default()
            })
            .collect(),
        ..SubjectResult::default()
    }
}

fn watched() -> Watched {
    let mut draw = fastrand::Rng::with_seed(3);
    let subjects = vec![
        subject(&mut draw, "gateway", "process", 0.47, 64.0),
        subject(&mut draw, "database", "cgroup", 0.22, 140.0),
        subject(&mut draw, "generator", "generator", 0.04, 9.0),
    ];
    let host = (1..=60).map(|t| HostSample {
        t_s: f64::from(t),
        busy_share: 0.42 + 0.1 * draw.f64(),
        steal_share: if t == 44 { 0.06 } else { 0.002 },
        pressure_share: Some(0.03),
        load1: 1.4,
    });
    Watched {
        host: host.collect(),
        subjects,
        noise: Some(Noise {
            steal_share: 0.002,
            pressure_share: Some(0.031),
            others_share: Some(0.012),
            load1: 1.4,
            ..Noise::default()
        }),
        ports: Some(Ports {
            range: 28_232,
            time_wait_max: 310,
        }),
    }
}

fn notes() -> Vec<Note> {
    vec![
        Note {
            flow: "checkout".into(),
            fault: "http-5xx".into(),
            number: 18_221,
            t_s: 40.2,
            what: "the status was 503 and not 200".into(),
            ..Note::default()
        },
        Note {
            flow: "checkout".into(),
            fault: "check".into(),
            number: 19_007,
            t_s: 41.1,
            what: "the body differs from what was sent, first at byte 512".into(),
            offset: Some(512),
            expected_hex: Some("3132333435363738393031323334353637383930".into()),
            received_hex: Some("3132333435363738393031323335353637383930".into()),
        },
    ]
}

fn meta() -> Meta {
    let words = "weir lab load checkout.yaml --watch pid:4711 --seed 7 --html report.html";
    Meta {
        name: "checkout and search, 900/s".into(),
        description: "Evening peak of the shop, with search beside it.".into(),
        represents: "one gateway instance in front of a local origin".into(),
        excludes: vec!["the LLM hop".into()],
        command: words.split(' ').map(str::to_owned).collect(),
        scenario_sha256: "5f1c0b2ad6c9a1b7e0f35f1c0b2ad6c9a1b7e0f35f1c0b2ad6c9a1b7e0f3aa11".into(),
        seed: 7,
        started: "2026-11-20T21:14:03Z".into(),
        seconds: END_S,
        partial: false,
        version: "0.1.0 (release)".into(),
        machine: Machine {
            cpu: "Example CPU @ 2.60GHz".into(),
            cores_logical: 4,
            cores_physical: Some(2),
            memory_bytes: 8_331_165_696,
            kernel: "6.1.0".into(),
            os: "Debian GNU/Linux 12".into(),
            virtualization: Some("kvm".into()),
            clock_source: Some("tsc".into()),
            ..Machine::default()
        },
        ceilings: Some(Ceilings {
            measured: "2026-11-20T20:58:41Z".into(),
            generator_rps: 61_000.0,
            generator_cpu_us: 7.1,
            origin_cpu_us: 8.9,
            fdatasync_ms_p50: 7.9,
            fdatasync_ms_p95: 12.1,
            timer_us_p50: 4.2,
            timer_us_p99: 31.0,
        }),
        ..Meta::default()
    }
}
