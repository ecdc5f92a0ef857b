//! What a metric is called and means: whoever counts says it, and the reference page is made from it.

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Without the `_total` that a counter gets.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static str,
    pub help: &'static str,
}
