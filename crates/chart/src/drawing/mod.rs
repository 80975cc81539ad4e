//! Drawings of Services as text: SVG, DOT and Mermaid. The module performs no I/O.
//!
//! - [`picture`]: selection and bounded content, the same for all formats
//! - `layout`, `svg`: places of boxes and lines; the drawing itself
//! - `dot`, `mermaid`: graphs that other programs lay out
//! - `text`: escapes; texts of objects are data in every format

mod dot;
mod layout;
mod mermaid;
pub mod picture;
mod svg;
mod text;

pub use dot::render as dot;
pub use mermaid::render as mermaid;
pub use svg::render as svg;

#[cfg(test)]
mod tests;
