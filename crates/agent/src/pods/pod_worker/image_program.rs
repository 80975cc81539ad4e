//! Program of a container from an image: command, environment, root file system (kubelet's
//! `generateContainerConfig`, containerd's `container_create.go`).

use std::path::{Path, PathBuf};

use ::images::{Image, OverlayAttributes};

use super::start_container::{ContainerStart, ContainerStartError};
use crate::containers::ContainerImage;
use crate::containers::environment::{PATH_DEFAULT, Variables, expand_words};
use crate::sandbox::protocol::{Confinement, ImageRoot, Mount, Program};
use crate::volumes::file_owners::VolumeOwners;

/// Files of the Pod with their paths in a container. A volume of the Pod at the path takes precedence.
pub(super) const POD_FILES: [(&str, &str); 3] = [
    ("hosts", "/etc/hosts"),
    ("hostname", "/etc/hostname"),
    ("resolv.conf", "/etc/resolv.conf"),
];

impl ContainerStart<'_> {
    /// Returns the program of an image. `environment` and `confinement` are those of the Pod.
    ///
    /// # Errors
    /// [`ContainerStartError::State`] if the writable layer cannot be created.
    pub(super) async fn image_program(
        &self,
        image: &Image,
        environment: Variables,
        mut confinement: Confinement,
    ) -> Result<Program, ContainerStartError> {
        let directory = match self.container.working_dir.as_str() {
            "" => image.config.working_directory.as_str(),
            own => own,
        };
        let directory = if directory.is_empty() { "/" } else { directory };
        confinement.mounts.extend(self.pod_files(&confinement));
        confinement.has_own_processes = self.has_own_processes();
        confinement.root = Some(ImageRoot {
            layers: image.layers.clone(),
            writable: self.writable_layer().await?,
            has_user_attributes: self.has_user_attributes(),
            directories: vec![PathBuf::from(directory)],
            user: image.config.user.clone(),
            merges_groups: self.merges_groups(),
        });
        Ok(Program {
            command: command(
                &expand_words(&self.container.command, &environment)?,
                &expand_words(&self.container.args, &environment)?,
                &image.config.entrypoint,
                &image.config.command,
            ),
            environment: self.environment_over(image, environment),
            directory: directory.to_owned(),
            confinement,
            closes_stdin_when_serving: false,
            streams: self.streams(),
            processes_of: self.target(),
        })
    }

    /// Returns the container whose PID namespace an ephemeral container shares. In a Pod with `shareProcessNamespace`
    /// or `hostPID`, all containers share one.
    fn target(&self) -> Option<String> {
        let name = &self.container.target_container_name;
        (self.has_own_processes() && !name.is_empty()).then(|| name.clone())
    }

    /// Returns true if the container has a PID namespace of its own.
    fn has_own_processes(&self) -> bool {
        let spec = &self.context.pod.spec;
        !spec.host_pid && spec.share_process_namespace != Some(true)
    }

    /// Creates the directory of the writable layer, and removes those of earlier runs.
    async fn writable_layer(&self) -> Result<PathBuf, ContainerStartError> {
        let (directory, run) = (self.context.directory.clone(), self.run);
        let name = self.container.name.clone();
        let prepare = move || directory.prepare_writable_layer(&name, run);
        let prepared = tokio::task::spawn_blocking(prepare).await;
        Ok(prepared.map_err(|_| ContainerStartError::Shutdown)??)
    }

    fn has_user_attributes(&self) -> bool {
        let images = self.context.agent.images.as_ref();
        images.is_some_and(|images| images.store.overlay_attributes() == OverlayAttributes::User)
    }

    fn merges_groups(&self) -> bool {
        let policy = &self.context.pod.spec.security_context.supplemental_groups_policy;
        policy.as_deref() != Some("Strict")
    }

    /// Returns the mounts of the Pod's own files.
    fn pod_files(&self, confinement: &Confinement) -> Vec<Mount> {
        let directory = self.context.directory.path();
        let is_volume = |target: &&(&str, &str)| {
            let mut mounts = confinement.mounts.iter();
            !mounts.any(|mount| mount.target == Path::new(target.1))
        };
        let files = POD_FILES.iter().filter(is_volume);
        let mount = |(name, target): &(&str, &str)| Mount {
            source: directory.join(name),
            target: PathBuf::from(target),
            is_read_only: confinement.has_read_only_root,
            is_id_mapped: self
                .users
                .is_some_and(|users| users.volumes == VolumeOwners::IdMapped),
            ..Mount::default()
        };
        files.map(mount).collect()
    }

    /// Returns the environment of the image below that of the Pod.
    fn environment_over(&self, image: &Image, own: Variables) -> Variables {
        let mut environment: Variables = image.config.environment.iter().cloned().collect();
        let sets_path = self.container.env.iter().any(|variable| variable.name == "PATH");
        for (name, value) in own {
            let is_default = name == "PATH" && value == PATH_DEFAULT && !sets_path;
            if !is_default || !environment.contains_key(&name) {
                environment.insert(name, value);
            }
        }
        environment
    }
}

/// Returns the command of a container. `command` of the Pod replaces entrypoint and command of the image, `args`
/// replace the command of the image.
fn command(
    command: &[String],
    args: &[String],
    entrypoint: &[String],
    image_command: &[String],
) -> Vec<String> {
    match (command, args) {
        ([], []) => [entrypoint, image_command].concat(),
        ([], args) => [entrypoint, args].concat(),
        (command, args) => [command, args].concat(),
    }
}

/// Returns the image of a container in its status and its checkpoint.
pub(super) fn container_image(image: &Image) -> ContainerImage {
    ContainerImage {
        name: image.reference.to_string(),
        digest_name: image.reference.at_digest(image.digest.clone()).to_string(),
        id: image.id.clone(),
        stop_signal: image.config.stop_signal.clone(),
    }
}

#[cfg(test)]
mod tests;
