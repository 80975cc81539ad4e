//! portolan
fn main() {}
