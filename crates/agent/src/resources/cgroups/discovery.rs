//! Discovery of the control group hierarchies that this process can use.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CgroupError, Cgroups, PODS, create, write};

/// Group of the agent process. In version 2, a group with child groups has no processes of its own.
const AGENT: &str = "portolan-agent";

/// Mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountedHierarchy {
    pub(super) path: PathBuf,
    /// Controllers of a version 1 hierarchy; `None` for version 2.
    pub(super) controllers: Option<Vec<String>>,
}

/// Finds the hierarchies with the needed controllers, version 2 first, and creates the group of all Pods.
///
/// # Errors
/// [`CgroupError`] if no hierarchy can be used.
pub(super) fn open() -> Result<Cgroups, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::File {
            path: path.into(),
            source,
        })
    };
    let mounted = parse_mounts(&read("/proc/self/mounts")?);
    let own = read("/proc/self/cgroup")?;
    let v2 = mounted.iter().find(|mounted| mounted.controllers.is_none());
    if let Some(v2) = v2 {
        let controllers = fs::read_to_string(v2.path.join("cgroup.controllers")).unwrap_or_default();
        if ["memory", "cpu", "pids"]
            .iter()
            .all(|needed| controllers.split_whitespace().any(|present| present == *needed))
        {
            return open_v2(&v2.path, &own);
        }
    }
    let group_of = |controller: &str| -> Result<PathBuf, CgroupError> {
        let has_controller = |hierarchy: &&MountedHierarchy| {
            let controllers = hierarchy.controllers.as_ref();
            controllers.is_some_and(|all| all.iter().any(|name| name == controller))
        };
        let hierarchy = mounted.iter().find(has_controller).ok_or(CgroupError::None)?;
        let pods = group_directory(&hierarchy.path, &path_of(&own, controller)).join(PODS);
        create_usable(&pods)?;
        Ok(pods)
    };
    Ok(Cgroups::V1 {
        memory: group_of("memory")?,
        cpu: group_of("cpu")?,
        cpuacct: group_of("cpuacct")
            .inspect_err(|error| tracing::warn!(%error, "CPU time of containers not measured"))
            .ok(),
        pids: group_of("pids")?,
    })
}

fn open_v2(root: &Path, own: &str) -> Result<Cgroups, CgroupError> {
    let own = path_of(own, "");
    // The agent may run in the group of another agent that started it.
    let base = own.trim_end_matches('/').trim_end_matches(AGENT).to_owned();
    let base = group_directory(root, &base);
    if base != root {
        let agent = base.join(AGENT);
        create(&agent)?;
        write(&agent, "cgroup.procs", "0")?;
    }
    write(&base, "cgroup.subtree_control", "+memory +cpu +pids")?;
    let pods = base.join(PODS);
    create_usable(&pods)?;
    write(&pods, "cgroup.subtree_control", "+memory +cpu +pids")?;
    Ok(Cgroups::V2 { pods })
}

/// Creates the group of all Pods and checks that child groups can be created in it.
fn create_usable(pods: &Path) -> Result<(), CgroupError> {
    create(pods)?;
    let trial = pods.join(format!("trial-{}", std::process::id()));
    fs::create_dir(&trial)
        .and_then(|()| fs::remove_dir(&trial))
        .map_err(|source| CgroupError::File { path: trial, source })
}

/// Parses the hierarchies in `/proc/self/mounts`.
pub(super) fn parse_mounts(mounts: &str) -> Vec<MountedHierarchy> {
    let read = |line: &str| -> Option<MountedHierarchy> {
        let mut fields = line.split_whitespace().skip(1);
        let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let controllers = match kind {
            "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
            "cgroup2" => None,
            _ => return None,
        };
        Some(MountedHierarchy {
            path: path.into(),
            controllers,
        })
    };
    mounts.lines().filter_map(read).collect()
}

/// Returns the path of this process in the hierarchy of a controller, from `/proc/self/cgroup`. The controller of
/// version 2 is "".
pub(super) fn path_of(own: &str, controller: &str) -> String {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers
            .split(',')
            .any(|name| name == controller)
            .then(|| path.to_owned())
    });
    path.unwrap_or_else(|| "/".to_owned())
}

/// Returns the path of a group in a hierarchy. In a container, the path may not be visible; then the root stands for
/// it.
fn group_directory(root: &Path, path: &str) -> PathBuf {
    let group = root.join(path.trim_start_matches('/'));
    if group.is_dir() && !path.trim_matches('/').is_empty() {
        group
    } else {
        root.to_owned()
    }
}
