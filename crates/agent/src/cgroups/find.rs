//! Where the control groups of this process are.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CgroupError, Cgroups, PODS, make, write};

/// The group that the agent itself moves to: with version 2, one that has others below has no processes of its own.
const AGENT: &str = "portolan-agent";

/// A mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) path: PathBuf,
    /// `None` for version 2.
    pub(super) controllers: Option<Vec<String>>,
}

pub(super) fn open() -> Result<Cgroups, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::File {
            path: path.into(),
            source,
        })
    };
    let mounted = mounted(&read("/proc/self/mounts")?);
    let own = read("/proc/self/cgroup")?;
    let v2 = mounted.iter().find(|mounted| mounted.controllers.is_none());
    if let Some(v2) = v2 {
        let controllers = fs::read_to_string(v2.path.join("cgroup.controllers")).unwrap_or_default();
        if ["memory", "cpu", "pids"]
            .iter()
            .all(|wanted| controllers.split_whitespace().any(|present| present == *wanted))
        {
            return open_v2(&v2.path, &own);
        }
    }
    let of = |controller: &str| -> Result<PathBuf, CgroupError> {
        let has_it = |m: &&Mounted| {
            let controllers = m.controllers.as_ref();
            controllers.is_some_and(|all| all.iter().any(|c| c == controller))
        };
        let hierarchy = mounted.iter().find(has_it).ok_or(CgroupError::None)?;
        let pods = below(&hierarchy.path, &path_of(&own, controller)).join(PODS);
        make_usable(&pods)?;
        Ok(pods)
    };
    Ok(Cgroups::V1 {
        memory: of("memory")?,
        cpu: of("cpu")?,
        pids: of("pids")?,
    })
}

fn open_v2(root: &Path, own: &str) -> Result<Cgroups, CgroupError> {
    let own = path_of(own, "");
    // An agent that was started by another one of its kind is in that one's group.
    let base = own.trim_end_matches('/').trim_end_matches(AGENT).to_owned();
    let base = below(root, &base);
    if base != root {
        let agent = base.join(AGENT);
        make(&agent)?;
        write(&agent, "cgroup.procs", "0")?;
    }
    write(&base, "cgroup.subtree_control", "+memory +cpu +pids")?;
    let pods = base.join(PODS);
    make_usable(&pods)?;
    write(&pods, "cgroup.subtree_control", "+memory +cpu +pids")?;
    Ok(Cgroups::V2 { pods })
}

/// Makes the group of all Pods, and tries whether there can be others in it: it may be somebody else's.
fn make_usable(pods: &Path) -> Result<(), CgroupError> {
    make(pods)?;
    let trial = pods.join(format!("trial-{}", std::process::id()));
    fs::create_dir(&trial)
        .and_then(|()| fs::remove_dir(&trial))
        .map_err(|source| CgroupError::File { path: trial, source })
}

/// The hierarchies in `/proc/self/mounts`.
pub(super) fn mounted(mounts: &str) -> Vec<Mounted> {
    let read = |line: &str| -> Option<Mounted> {
        let mut fields = line.split_whitespace().skip(1);
        let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let controllers = match kind {
            "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
            "cgroup2" => None,
            _ => return None,
        };
        Some(Mounted {
            path: path.into(),
            controllers,
        })
    };
    mounts.lines().filter_map(read).collect()
}

/// The path of this process in the hierarchy of a controller, "" for that of version 2, from `/proc/self/cgroup`.
pub(super) fn path_of(own: &str, controller: &str) -> String {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers
            .split(',')
            .any(|c| c == controller)
            .then(|| path.to_owned())
    });
    path.unwrap_or_else(|| "/".to_owned())
}

/// A path in a hierarchy; its root if the path is not seen from here, as in a container.
fn below(root: &Path, path: &str) -> PathBuf {
    let group = root.join(path.trim_start_matches('/'));
    if group.is_dir() && !path.trim_matches('/').is_empty() {
        group
    } else {
        root.to_owned()
    }
}
