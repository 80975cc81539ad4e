use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::body::Page;
use super::*;

const PREFIX: &str = "/api/v1/namespaces/d/services/web/proxy";

fn links() -> Links {
    Links {
        authority: "192.0.2.1:80".to_owned(),
        host: "api:6443".to_owned(),
        prefix: PREFIX.to_owned(),
    }
}

/// Returns a page that arrives in pieces of this size.
fn rewritten(page: &str, piece_bytes: usize) -> String {
    let mut rewriter = Page::new(false, links());
    let mut out = Vec::new();
    for piece in page.as_bytes().chunks(piece_bytes) {
        out.extend(rewriter.push(piece).unwrap());
    }
    out.extend(rewriter.finish().unwrap());
    String::from_utf8(out).unwrap()
}

/// Compares a rewritten page for pieces of all sizes.
fn check(page: &str, expected: &str) {
    for piece_bytes in 1..=page.len() {
        assert_eq!(
            rewritten(page, piece_bytes),
            expected,
            "pieces of {piece_bytes} bytes"
        );
    }
}

#[test]
fn rewrites_redirects_to_paths_of_the_server() {
    let to = |location: &str| links().rewritten(location);
    assert_eq!(to("/login?x=1"), format!("{PREFIX}/login?x=1"));
    assert_eq!(to("http://192.0.2.1:80/a/"), format!("{PREFIX}/a/"));
    assert_eq!(to("https://api:6443/a"), format!("{PREFIX}/a"));
    assert_eq!(to(&format!("{PREFIX}/a")), format!("{PREFIX}/a"));
    assert_eq!(to(&format!("{PREFIX}other")), format!("{PREFIX}{PREFIX}other"));
    for elsewhere in ["http://example.com/a", "//example.com/a", "next", "?page=2"] {
        assert_eq!(to(elsewhere), elsewhere);
    }
}

#[test]
fn rewrites_absolute_paths_of_links() {
    check(
        r#"<a href="/rewriteme">test</a><IMG alt=/a SRC=/i.png><form method='post' action = '/f?a=1'></form>"#,
        &format!(
            r#"<a href="{PREFIX}/rewriteme">test</a><IMG alt=/a SRC={PREFIX}/i.png><form method='post' action = '{PREFIX}/f?a=1'></form>"#
        ),
    );
    check(
        r#"<input disabled formaction="http://api:6443/a"/><p>x > y</p>"#,
        &format!(r#"<input disabled formaction="{PREFIX}/a"/><p>x > y</p>"#),
    );
}

#[test]
fn quotes_in_the_prefix_do_not_end_a_value() {
    let links = Links {
        prefix: "/x'\"y/proxy".to_owned(),
        ..links()
    };
    for link in ["/a", "http://192.0.2.1:80/a"] {
        let mut page = Page::new(false, links.clone());
        let tag = format!("<a href='{link}'>");
        let mut out = page.push(tag.as_bytes()).unwrap().to_vec();
        out.extend(page.finish().unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), "<a href='/x%27%22y/proxy/a'>");
    }
}

#[test]
fn leaves_other_text_unchanged() {
    for page in [
        "",
        "a < b and c > d",
        r#"<a href="next">relative</a> <a href="http://example.com/x">elsewhere</a>"#,
        r#"<p href="/no-link">text</p></a href="/x">"#,
        r#"<!-- <a href="/x"> --><!doctype html>"#,
        r#"<script>document.write('<a href="/x">')</script>"#,
        r#"<textarea><a href="/x"></textareas><<</textarea>"#,
        r#"<p title="<a href='/x'>">"#,
        r#"<a href="/unfinished"#,
    ] {
        if page.is_empty() {
            assert_eq!(rewritten(page, 1), "");
        } else {
            check(page, page);
        }
    }
}

#[test]
fn rewrites_behind_comments_and_scripts() {
    check(
        r#"<!-- x --><script src="/s.js"></script><<a href='/a'>"#,
        &format!(r#"<!-- x --><script src="{PREFIX}/s.js"></script><<a href='{PREFIX}/a'>"#),
    );
}

#[test]
fn long_tags_pass_without_being_held() {
    let page = format!("<a title=\"{}\" href=\"/x\">", "a".repeat(70 << 10));
    assert_eq!(rewritten(&page, 1000), page);
}

#[test]
fn compressed_pages_stay_compressed() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(br#"<a href="/a">"#).unwrap();
    let compressed = encoder.finish().unwrap();
    let mut page = Page::new(true, links());
    let mut out = Vec::new();
    for piece in compressed.chunks(7) {
        out.extend(page.push(piece).unwrap());
    }
    out.extend(page.finish().unwrap());
    let mut text = String::new();
    GzDecoder::new(out.as_slice()).read_to_string(&mut text).unwrap();
    assert_eq!(text, format!(r#"<a href="{PREFIX}/a">"#));
    assert!(Page::new(true, links()).push(b"not compressed at all").is_err());
}

#[test]
fn rewrites_pages_only() {
    let headers = |kind: &'static str, encoding: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if !encoding.is_empty() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        headers
    };
    let is_page = |kind, encoding| is_rewritable(StatusCode::OK, &headers(kind, encoding));
    assert!(is_page("text/html", "") && is_page("Text/HTML; charset=utf-8", "gzip"));
    assert!(!is_page("text/plain", "") && !is_page("text/html", "br"));
    assert!(!is_rewritable(
        StatusCode::PARTIAL_CONTENT,
        &headers("text/html", "")
    ));
    assert!(!is_rewritable(StatusCode::OK, &HeaderMap::new()));
}
