//! The numbers that SciPy computed for the tests of fits, as `tests/vectors/make_fits.py` wrote them.

pub(super) fn vectors() -> serde_json::Value {
    let text = include_str!("../../tests/vectors/fits.json");
    serde_json::from_str(text).unwrap()
}
