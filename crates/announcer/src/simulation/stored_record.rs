//! The record of members as the modelled API server stores it.

use api::announcers::Record;

use crate::election::membership::VERSION_SEPARATOR;

/// The record in the API.
pub(super) struct StoredRecord {
    /// Number of the object, in place of a UID.
    pub(super) object: u64,
    pub(super) version: u64,
    pub(super) record: Record,
    /// True if a process of the version without keys wrote it.
    pub(super) is_unkeyed: bool,
    /// True if no process can read it.
    pub(super) is_malformed: bool,
}

impl StoredRecord {
    /// Returns the version as processes know it.
    pub(super) fn version(&self) -> String {
        format!("{}{VERSION_SEPARATOR}{}", self.object, self.version)
    }

    /// Returns the record as a process reads it; `None` if the process cannot read it. Records of the former
    /// version contain no processes.
    pub(super) fn read_by(&self, is_unkeyed: bool) -> Option<(String, Record)> {
        if self.is_malformed {
            return None;
        }
        let mut record = self.record.clone();
        match (self.is_unkeyed, is_unkeyed) {
            (false, true) => return None,
            (true, false) => {
                let entries = record.members.values_mut().chain(record.joining.values_mut());
                entries.for_each(|member| member.process = None);
            }
            _ => {}
        }
        Some((self.version(), record))
    }
}
