//! mod doc
use a::{b, c as d};

/// doc
/// more
#[derive(X)]
pub struct P<T> { pub x: u32 }
pub enum E { A, B(u32) }
impl<T> Tr for P<T> {
    const K: u32 = 1;
    /// f doc
    #[inline]
    fn f(&self) -> u32 { let local = g(1); self.h(); X::y(); m!(1); P { x: 1 } }
}
pub trait Tr { fn z(&self); }
mod n { fn inner() {} }
macro_rules! m { () => {} }
static S: u32 = 1; // trailing
type T = u32;
