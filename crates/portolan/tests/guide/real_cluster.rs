//! Runs the guide of `docs/install.md` in a real cluster of one node. Host 1 is the node, and host 2 a host in its network.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::cluster;
use super::page::{Block, blocks, is_like};

/// Page and name of the guide.
const PAGE: &str = "install.md";
const GUIDE: &str = "install";
/// Program that makes the image smaller.
const STRIP: (&str, &str) = ("strip", "--version");
/// Free addresses in the network of the cluster, for the variable `ADDRESSES` of the guide.
const ADDRESSES: &str = "198.18.21.200-198.18.21.220";
/// Starts a cluster without kube-proxy and DNS, loads the image, runs the blocks, and removes the cluster. Its
/// namespaces have their own directory, so those of other clusters stay. Arguments: `tools/image`, the binary, and a
/// directory with the blocks, whose names end with the number of their host.
const RUN_GUIDE: &str = r#"
    mkdir -p /run/netns && mount -t tmpfs namespaces /run/netns || exit
    cd "$3" && mkdir bin outputs && strip --strip-debug -o bin/portolan "$2" || exit
    export PATH="$3/bin:$PATH"
    trap '"$0" down' EXIT
    "$0" up --nodes 1 --proxy none --dns none || exit
    "$0" server kubectl -n kube-system delete service/kube-dns endpointslice/kube-dns-node1 || exit
    "$1" --binary bin/portolan --output portolan.tar && "$0" image portolan.tar || exit
    for block in blocks/*; do
        case $block in
        *.1) set -- "$0" server ;;
        *) set -- nsenter "--net=/run/netns/$CLUSTER_PREFIX-switch" ;;
        esac
        "$@" bash -eu -o pipefail "$block" >"outputs/${block#blocks/}" 2>&1 && continue
        cat "$block" "outputs/${block#blocks/}"
        "$0" server kubectl get pods,services,endpointslices -A -o wide
        "$0" server kubectl get events -A | tail -n 30
        for pod in $("$0" server kubectl -n kube-system get pods -o name); do
            echo "== $pod"
            "$0" server kubectl -n kube-system logs --all-containers --tail=20 "$pod"
        done
        exit 1
    done
"#;

/// Returns the file name of a block: its position in the guide, and the number of its host.
fn file_name(position: usize, block: &Block) -> String {
    format!("{position:02}.{}", block.host + 1)
}

#[test]
fn installation_guide_prints_its_output() {
    let test = "installation_guide_prints_its_output";
    let Some(script) = cluster::script_or_skip(test, &[STRIP]) else {
        return;
    };
    let page = fs::read_to_string(format!("{}/{PAGE}", super::PAGES)).expect("a page of docs/");
    let blocks = blocks(&page, GUIDE);
    assert!(
        blocks.iter().any(|block| block.prints.is_some()),
        "docs/{PAGE} has no guide {GUIDE}"
    );
    let [cluster, files] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    fs::create_dir(files.path().join("blocks")).expect("a directory");
    for (position, block) in blocks.iter().enumerate() {
        let path = files.path().join("blocks").join(file_name(position, block));
        fs::write(path, &block.commands).expect("a block");
    }
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c", RUN_GUIDE])
        .arg(script)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/image"))
        .arg(env!("CARGO_BIN_EXE_portolan"))
        .arg(files.path())
        .env("ADDRESSES", ADDRESSES)
        .env("CLUSTER_DIR", cluster.path())
        .env("CLUSTER_PREFIX", "pg")
        .env("CLUSTER_NET", "198.18.21")
        .output()
        .expect("unshare");
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}", text.concat());
    for (position, block) in blocks.iter().enumerate() {
        let path = files.path().join("outputs").join(file_name(position, block));
        let printed = fs::read_to_string(path).expect("the output of a block");
        let Some(expected) = &block.prints else { continue };
        assert!(
            is_like(&printed, expected),
            "docs/{PAGE}, line {}:\n{}\nexpected output:\n{expected}\nactual output:\n{printed}",
            block.line,
            block.commands
        );
    }
}
