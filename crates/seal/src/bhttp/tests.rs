//! Tests of Binary HTTP; they are of no use to anybody else.
