//! Links to a Pod as paths of this server.

/// Rewriter of links for one proxied request.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// Address and port of the Pod.
    pub(crate) authority: String,
    /// Host and port of this server as the client addressed it.
    pub(crate) host: String,
    /// Path of the proxy, without a slash at its end.
    pub(crate) prefix: String,
}

impl Links {
    /// Rewrites a link to an absolute path on the Pod to a path of this server; other links are unchanged.
    pub(crate) fn rewritten(&self, link: &str) -> String {
        let (origin, path) = match link.split_once("//") {
            Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                rest.split_at(end)
            }
            _ => ("", link),
        };
        let is_elsewhere = !origin.is_empty() && origin != self.authority && origin != self.host;
        if is_elsewhere || !path.starts_with('/') {
            return link.to_owned();
        }
        let prefix = &self.prefix;
        let behind = path.strip_prefix(prefix.as_str());
        if behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return path.to_owned();
        }
        format!("{prefix}{path}")
    }
}
