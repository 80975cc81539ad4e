//! Debug pages `/statusz` and `/flagz` (HLT-04) in the common format of Kubernetes components.

use jiff::Timestamp;

/// Component name on the pages, which dashboards expect.
const COMPONENT: &str = "kube-proxy";
/// Further paths of the metrics server.
const PATHS: &str = "/configz /healthz /metrics /metrics/slis /proxyMode /status";

/// Enabled pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// True if `/statusz` is served: feature gate `ComponentStatusz`.
    pub statusz: bool,
    /// Flags on `/flagz`, if it is served: feature gate `ComponentFlagz`. Names without dashes.
    pub flagz: Option<Vec<(String, String)>>,
}

impl Pages {
    /// Returns `/statusz` if it is enabled.
    pub(crate) fn statusz(&self, started: Timestamp, now: Timestamp) -> Option<String> {
        self.statusz.then(|| {
            let up = now.duration_since(started).as_secs().max(0);
            let (hours, minutes, seconds) = (up / 3_600, up / 60 % 60, up % 60);
            format!(
                "{}Started: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nBinary version: {}\nPaths: {PATHS}\n",
                header("statusz"),
                started.strftime("%a %b %e %H:%M:%S UTC %Y"),
                env!("CARGO_PKG_VERSION"),
            )
        })
    }

    /// Returns `/flagz` if it is enabled.
    pub(crate) fn flagz(&self) -> Option<String> {
        let flags = self.flagz.as_ref()?;
        let mut lines: Vec<String> = flags
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        lines.sort_unstable();
        Some(header("flagz") + &lines.concat())
    }
}

fn header(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n\n"
    )
}

#[cfg(test)]
mod tests;
