//! Links in HTML pages of Pods that clients read through the `proxy` subresource (upstream's proxy transport).
//!
//! [`Links`] rewrites one link, [`rewriter::LinkRewriter`] the links of a page piece by piece, and [`HtmlBody`] the
//! body of a response.

mod attributes;
mod body;
mod links;
mod rewriter;

pub(crate) use body::{HtmlBody, is_rewritable};
pub(crate) use links::Links;

#[cfg(test)]
mod tests;
