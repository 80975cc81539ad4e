//! A door for the fuzz targets: what is read of a request's first line.

use api::decode::Format;
use http::HeaderMap;

use crate::query::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::route::{Route, route};

/// Reads a path with its query as the router and every kind of request do.
pub fn request_line(text: &str) {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Route::Resource(target) = route(path) {
        let key = target.key();
        assert!(key.starts_with('/'), "a key that is no path: {key:?}");
    }
    let (query, headers) = (Query::parse(query), HeaderMap::new());
    ListOptions::read(&query).ok();
    WriteOptions::read(&query, &headers, "CreateOptions").ok();
    WriteOptions::read_patch(&query, &headers, true).ok();
    DeleteOptions::read(&query, &[], Format::Json).ok();
}
