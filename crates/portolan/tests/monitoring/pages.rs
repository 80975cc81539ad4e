//! Metrics pages in the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

/// Metric families of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub text: String,
    families: BTreeMap<String, Family>,
}

/// A metric family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    pub is_histogram: bool,
    /// Labels of the samples without `le`; `None` without samples.
    pub labels: Option<BTreeSet<String>>,
}

impl Page {
    /// Parses a page.
    pub(crate) fn parse(text: &str) -> Self {
        assert_eq!(telemetry::validate(text), Ok(()), "{text}");
        let mut families = BTreeMap::<String, Family>::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some((name, kind)) = line
                .strip_prefix("# TYPE ")
                .and_then(|declared| declared.split_once(' '))
            {
                name.clone_into(&mut current);
                families.entry(current.clone()).or_default().is_histogram = kind == "histogram";
            } else if !line.starts_with('#') {
                let family = families.get_mut(&current).expect("a family");
                let labels = family.labels.get_or_insert_default();
                labels.extend(labels_of(line).into_iter().filter(|label| label != "le"));
            }
        }
        Self {
            text: text.to_owned(),
            families,
        }
    }

    /// Returns a family by its name.
    pub(crate) fn family(&self, name: &str) -> Option<&Family> {
        self.families.get(name)
    }

    /// Returns the labels of the series with this name, with `le` for buckets; `None` if the page has no such series.
    pub(crate) fn labels(&self, series: &str) -> Option<BTreeSet<String>> {
        if let Some(family) = self.families.get(series).filter(|family| !family.is_histogram) {
            return family.labels.clone();
        }
        let (name, suffix) = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| Some((series.strip_suffix(suffix)?, *suffix)))?;
        let family = self.families.get(name).filter(|family| family.is_histogram)?;
        let mut labels = family.labels.clone()?;
        if suffix == "_bucket" {
            labels.insert("le".to_owned());
        }
        Some(labels)
    }
}

/// Returns the names of the labels of a sample.
fn labels_of(sample: &str) -> Vec<String> {
    let Some((_, labels)) = sample.split_once('{') else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let mut rest = labels;
    while let Some((name, after)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(',').to_owned());
        rest = after.split_once('"').map_or("", |(_, after)| after);
        if rest.starts_with('}') {
            break;
        }
    }
    names
}

#[test]
fn series_of_a_page_have_their_labels() {
    let page = Page::parse(
        "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1,}\",y=\"\"} 2\n# HELP b B.\n# TYPE b histogram\n\
         b_bucket{z=\"1\",le=\"+Inf\"} 1\nb_sum{z=\"1\"} 1\nb_count{z=\"1\"} 1\n# HELP c C.\n# TYPE c gauge\n",
    );
    let labels = |series: &str| {
        page.labels(series)
            .map(|labels| labels.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(labels("a_total"), Some(vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!(labels("b_bucket"), Some(vec!["le".to_owned(), "z".to_owned()]));
    assert_eq!(labels("b_count"), Some(vec!["z".to_owned()]));
    assert_eq!((labels("b"), labels("c"), labels("d")), (None, None, None));
    assert!(page.family("c").is_some_and(|family| family.labels.is_none()));
}
