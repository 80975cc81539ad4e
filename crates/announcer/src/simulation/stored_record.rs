//! The record of members as the modelled API server stores it.

use api::announcers::Record;

/// The record in the API.
pub(super) struct StoredRecord {
    pub(super) version: u64,
    pub(super) record: Record,
    /// True if a process of the version without keys wrote it.
    pub(super) is_unkeyed: bool,
}

impl StoredRecord {
    /// Returns the record as a process reads it; `None` if the process cannot read it. Records of the former
    /// version contain no processes.
    pub(super) fn read_by(&self, is_unkeyed: bool) -> Option<(String, Record)> {
        let mut record = self.record.clone();
        match (self.is_unkeyed, is_unkeyed) {
            (false, true) => return None,
            (true, false) => {
                let entries = record.members.values_mut().chain(record.joining.values_mut());
                entries.for_each(|member| member.process = None);
            }
            _ => {}
        }
        Some((self.version.to_string(), record))
    }
}
