//! The options of all commands that take a lock: how long they wait, and who the holder is.

use std::env;
use std::time::Duration;

use clap::Args;
use syncguard::AcquisitionOptions;
use syncguard::contract::Holder;

use crate::exit::{Failure, Status};
use crate::time::parse_wait;

#[derive(Args)]
pub(crate) struct WaitOptions {
    /// The longest time to wait for the lock, such as 30s or 5m; a bare number is in seconds, as
    /// for flock [default: no limit]
    #[arg(long, short, value_name = "DURATION", value_parser = parse_wait)]
    #[arg(conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Does not wait: ends with status 75 if another process holds the lock
    #[arg(long, short)]
    no_wait: bool,
    /// The exit status if another process holds the lock [default: 75]
    #[arg(long, short = 'E', value_name = "STATUS", default_value = None)]
    conflict_exit_code: Option<u8>,
}

impl WaitOptions {
    /// The longest accepted duration: 100 years.
    pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

    pub(crate) fn acquisition(&self) -> AcquisitionOptions {
        match (self.no_wait, self.wait) {
            (true, _) | (_, Some(Duration::ZERO)) => AcquisitionOptions::new().with_max_retries(0),
            (_, wait) => AcquisitionOptions::new().with_timeout(wait.unwrap_or(Self::LONGEST)),
        }
    }

    /// The exit status if another process holds the lock.
    pub(crate) fn conflict_status(&self) -> Status {
        self.conflict_status_or(Status::CONFLICT)
    }

    /// The exit status that the user gave for a conflict, or else this one.
    pub(crate) fn conflict_status_or(&self, status: Status) -> Status {
        self.conflict_exit_code.map_or(status, Status::new)
    }
}

#[derive(Args)]
pub(crate) struct HolderOptions {
    /// Names the holder, for people [default: `SYNCGUARD_HOLDER`, or else host name and process id]
    #[arg(long, value_name = "LABEL")]
    holder: Option<String>,
    /// Says what the lock is for, such as the address of a run [default: `SYNCGUARD_NOTE`]
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl HolderOptions {
    /// The label and the note that the user gave, as parameters of the store's URL.
    ///
    /// # Errors
    ///
    /// Fails if no store can keep the label or the note.
    pub(crate) fn given(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let label = given(self.holder.as_ref(), "SYNCGUARD_HOLDER")?;
        let note = given(self.note.as_ref(), "SYNCGUARD_NOTE")?;
        Holder::new(label.as_deref().unwrap_or_default())?
            .with_note(note.as_deref().unwrap_or_default())?;
        let given = [("holder", label), ("note", note)].into_iter();
        Ok(given.filter_map(|(name, text)| Some((name, text?))).collect())
    }
}

/// The text of the option, or else of the variable.
fn given(option: Option<&String>, variable: &str) -> Result<Option<String>, Failure> {
    if let Some(text) = option {
        return Ok(Some(text.clone()));
    }
    match env::var(variable) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Failure::usage(format!("{variable} is not UTF-8")))
        }
    }
}
