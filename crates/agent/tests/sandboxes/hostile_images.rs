//! Images that attack the node during the start of a container.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use agent::sandbox::protocol::{Confinement, ImageRoot, Mount};

use crate::fixture::{Outcome, Pod, SLEEP, check};
use crate::image_roots::{in_root, root, write_layer};

/// Bytes of a user file that no image needs.
const OVERSIZED_BYTES: usize = 2 << 20;

pub(crate) async fn links_stay_inside_the_root(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    let outside = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let target = outside.path();
    let hostile = pod.root.path().join("images/layers/hostile");
    fs::create_dir_all(hostile.join("a"))?;
    symlink(target, hostile.join("absolute"))?;
    symlink(
        format!("../../../../../..{}", target.display()),
        hostile.join("a/upwards"),
    )?;
    symlink(
        format!("/proc/1/root{}", target.display()),
        hostile.join("process"),
    )?;
    symlink(
        format!("/proc/self/fd/3/../../..{}", target.display()),
        hostile.join("descriptor"),
    )?;
    symlink("loop", hostile.join("loop"))?;
    let volume = pod.directory.path().join("volumes/data");
    fs::create_dir_all(&volume)?;
    let mount = |path: &str| Mount {
        source: volume.clone(),
        target: path.into(),
        ..Mount::default()
    };
    let paths = [
        "/absolute/new",
        "/a/upwards/new",
        "/process/new",
        "/descriptor/new",
    ];
    let mut image = root(&pod, &[&base, &hostile], 0)?;
    image.directories = vec!["/absolute/work/deep".into()];
    let confinement = Confinement {
        mounts: paths.iter().map(|path| mount(path)).collect(),
        ..in_root(image)
    };
    // Links through the processes of the Pod end at files that are not directories, or stay in the image.
    let started = pod.confined("main", SLEEP, confinement).await;
    check(
        fs::read_dir(target)?.next().is_none(),
        "a mount point was created on the node",
    )?;
    if started.is_err() {
        let confinement = Confinement {
            mounts: paths[..2].iter().map(|path| mount(path)).collect(),
            ..in_root(root(&pod, &[&base, &hostile], 1)?)
        };
        pod.confined("main", SLEEP, confinement).await?;
    }
    pod.check_success("main", &format!("ls -d {}/new", target.display()))
        .await?;
    check(
        fs::read_dir(target)?.next().is_none(),
        "a mount point was created on the node",
    )?;
    let looping = Confinement {
        mounts: vec![mount("/loop/x")],
        ..in_root(root(&pod, &[&base, &hostile], 2)?)
    };
    let error = pod.confined("loop", SLEEP, looping).await.err();
    check(
        error.is_some_and(|error| error.to_string().contains("/loop/x")),
        "a loop of links",
    )?;
    pod.end().await
}

pub(crate) async fn rejects_roots_without_directories_for_the_kernel(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    for (run, name) in ["proc", "sys", "dev"].into_iter().enumerate() {
        let hostile = pod.root.path().join("images/layers").join(name);
        fs::create_dir_all(&hostile)?;
        symlink("/srv", hostile.join(name))?;
        let confinement = in_root(root(&pod, &[&base, &hostile], run as u32)?);
        let error = pod.confined("main", SLEEP, confinement).await.err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        let expected = format!("the image has a file or link at /{name}");
        check(message.contains(&expected), message)?;
    }
    pod.end().await
}

pub(crate) async fn rejects_oversized_and_blocking_user_files(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    let hostile = pod.root.path().join("images/layers/hostile");
    fs::create_dir_all(hostile.join("etc"))?;
    let passwd = hostile.join("etc/passwd");
    let message_of = async |run: u32| -> Result<String, Box<dyn std::error::Error>> {
        let image = ImageRoot {
            user: "web".to_owned(),
            ..root(&pod, &[&base, &hostile], run)?
        };
        let error = pod.confined("main", SLEEP, in_root(image)).await.err();
        Ok(error.map(|error| error.to_string()).unwrap_or_default())
    };
    fs::write(&passwd, vec![b'x'; OVERSIZED_BYTES])?;
    let message = message_of(0).await?;
    check(
        message.contains("/etc/passwd of the image: it is larger than"),
        message,
    )?;
    fs::remove_file(&passwd)?;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &passwd,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )?;
    let message = message_of(1).await?;
    check(
        message.contains("/etc/passwd of the image: it is not a regular file"),
        message,
    )?;
    fs::remove_file(&passwd)?;
    symlink("/proc/1/root/etc/passwd", &passwd)?;
    let message = message_of(2).await?;
    check(message.contains("/etc/passwd of the image"), message)?;
    pod.end().await
}
