//! Implements `list`, with pagination.

use store::{Entry, Listing, Revision};

use super::continuation::Continuation;
use super::selection::Selection;
use super::{Resources, check_readable};
use crate::failure::Failure;
use crate::request::query::{ListOptions, VersionMatch};
use crate::request::route::Target;
use crate::verbs::page::Page;

#[cfg(test)]
mod tests;

/// Fewest keys that one read of the index returns if a selector selects some of them. Each read visits all keys
/// behind them to count the rest. The cost of reads of few keys would be the square of the size of the collection.
const SELECTED_READ_KEYS_MIN: usize = 10_000;

impl Resources {
    /// Lists the selected objects of a collection.
    pub(crate) async fn list(&self, target: &Target, options: &ListOptions) -> Result<Page, Failure> {
        let selection = Selection::parse(target, options)?;
        if !options.continue_token.is_empty() {
            let from = Continuation::parse(&options.continue_token, target.kind)?;
            if options.version.is_some_and(|version| version != Revision(0)) {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Failure::bad_request(message));
            }
            if from.revision().is_none() {
                self.wait_for(None).await?;
            }
            let page = self.page(&selection, from.revision(), Some(from.after()), options.limit);
            return page.map_err(|failure| {
                if failure.is_expired() {
                    Failure::late_for_page(from.at_newest().token())
                } else {
                    failure
                }
            });
        }
        let at = self.revision_to_list(options).await?;
        // As upstream: its cache serves lists of any version, and serves them whole.
        let limit = options.limit.filter(|_| options.version != Some(Revision(0)));
        self.page(&selection, at, None, limit)
    }

    /// Returns the revision at which a list is read; `None` for the newest one.
    async fn revision_to_list(&self, options: &ListOptions) -> Result<Option<Revision>, Failure> {
        let is_exact = match (options.version, options.version_match) {
            (None | Some(Revision(0)), _) | (_, Some(VersionMatch::NotOlderThan)) => false,
            (_, Some(VersionMatch::Exact)) => true,
            // As upstream: a version without `resourceVersionMatch` is exact for pages, otherwise a minimum.
            (Some(_), None) => options.limit.is_some(),
        };
        self.wait_for(options.version).await?;
        Ok(options.version.filter(|_| is_exact))
    }

    fn page(
        &self,
        selection: &Selection,
        at: Option<Revision>,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page, Failure> {
        // As upstream, which reads the key of a single object: such a page has no next one.
        let limit = limit.filter(|_| !selection.is_single());
        let index = self.store.index();
        let keys = keys_per_read(limit, selection.is_everything());
        let read = |at, after: Option<&str>| {
            let listing = index
                .list(&selection.prefix, at, after, keys)
                .map_err(|error| Failure::of_read(&error))?;
            // As upstream: a list with an undecryptable object fails, because omitting the object would look like
            // a deletion.
            listing.entries.iter().try_for_each(check_readable)?;
            Ok::<_, Failure>(listing)
        };
        let listing = read(at, after)?;
        if !selection.is_everything() {
            let is_selected = |entry: &Entry| selection.matches(&entry.key, &entry.value);
            return selected_page(listing, limit, is_selected, |revision, after| {
                read(Some(revision), Some(after))
            });
        }
        let remaining = (listing.remaining > 0).then_some(listing.remaining);
        let token = continue_token(&listing.entries, listing.revision, listing.remaining);
        Ok(Page {
            entries: listing.entries,
            revision: listing.revision,
            continue_token: token,
            remaining,
        })
    }
}

/// Returns a page of the selected objects. `listing` is the first read of keys; `read` returns those behind a key at the
/// same revision.
fn selected_page(
    mut listing: Listing,
    limit: Option<usize>,
    is_selected: impl Fn(&Entry) -> bool,
    read: impl Fn(Revision, &str) -> Result<Listing, Failure>,
) -> Result<Page, Failure> {
    let revision = listing.revision;
    let mut entries = Vec::new();
    loop {
        let (read_up_to, remaining) = (
            listing.entries.last().map(|entry| entry.key.clone()),
            listing.remaining,
        );
        let room = limit.map_or(usize::MAX, |limit| limit - entries.len());
        let mut unread = listing.entries.into_iter();
        entries.extend(unread.by_ref().filter(&is_selected).take(room));
        let is_full = limit.is_some_and(|limit| entries.len() >= limit);
        // The next page reads the entries behind a full page. As upstream, a full page has a next one even if no entry
        // behind it is selected.
        let left_over = unread.len();
        match read_up_to {
            Some(last) if remaining > 0 && !is_full => listing = read(revision, &last)?,
            _ => {
                let more = if is_full { remaining + left_over } else { 0 };
                let token = continue_token(&entries, revision, more);
                return Ok(Page {
                    entries,
                    revision,
                    continue_token: token,
                    remaining: None,
                });
            }
        }
    }
}

/// Returns the number of keys that one read of the index returns for a page of `limit` objects.
fn keys_per_read(limit: Option<usize>, is_everything: bool) -> Option<usize> {
    match limit {
        Some(limit) if !is_everything => Some(limit.max(SELECTED_READ_KEYS_MIN)),
        limit => limit,
    }
}

fn continue_token(entries: &[Entry], revision: Revision, more: usize) -> Option<String> {
    let last = entries.last().filter(|_| more > 0)?;
    Some(Continuation::new(revision, &last.key).token())
}
