//! The command under a held lock.

use std::env;
use std::path::{Path, absolute};

use syncguard::{Held, ReleaseResult};
use tokio::time::Instant;

use super::job::Job;
use super::lock_file::LockFile;
use super::options::Options;
use super::program::Program;
use super::supervise::{Ended, LOCK_UNKNOWN, supervise};
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::{Store, without_password};
use crate::time::human;

/// Runs the command under a lock that is held.
pub(super) struct Runner<'a> {
    pub(super) options: &'a Options,
    pub(super) program: &'a Program,
    pub(super) store: &'a Store,
    pub(super) output: Output,
}

impl Runner<'_> {
    /// Starts the command with these variables beside the usual ones, and waits for its end.
    pub(super) async fn run(
        &self,
        held: &Held,
        variables: impl IntoIterator<Item = (&'static str, String)>,
        signals: &mut Signals,
    ) -> Result<Ended, Failure> {
        let mut environment = vec![
            ("SYNCGUARD_KEY", self.options.key.clone()),
            ("SYNCGUARD_FENCE", held.fence().to_string()),
            ("SYNCGUARD_STORE", without_password(self.store.expose())),
        ];
        environment.extend(variables);
        // A relative path would be another file if the command is in another folder.
        let named = || env::var_os("SYNCGUARD_STORE_FILE").and_then(|path| absolute(path).ok());
        let file = self.store.source().map(Path::to_owned).or_else(named);
        let file = file.and_then(|path| path.into_os_string().into_string().ok());
        environment.extend(file.map(|path| ("SYNCGUARD_STORE_FILE", path)));
        let file = self.store.file().and_then(LockFile::at);
        let loss_action = self.options.loss_action();
        let arguments = self.options.arguments();
        let job = Job::start(self.program, arguments, &environment, held, loss_action).await?;
        supervise(job, held, &loss_action, file, signals, self.output).await
    }

    /// The status of this program after the command has ended, as soon as the store has answered the release.
    ///
    /// # Errors
    ///
    /// Fails if the lock was taken away as the command ended.
    pub(super) fn status(
        &self,
        ended: &Ended,
        released: Result<ReleaseResult, Failure>,
    ) -> Result<Status, Failure> {
        match released {
            _ if ended.was_lost => Ok(Status::LOST),
            Ok(released) if released.is_released() => Ok(ended.status),
            // Until then nobody else could have the lock.
            Ok(_) if Instant::now() >= ended.valid_until => {
                self.output.error(
                    "the command had ended in time, and its lock was over when the store answered the release",
                );
                Ok(ended.status)
            }
            Ok(_) => Err(Failure::new(
                Status::LOST,
                format!(
                    "when the command had ended, {LOCK_UNKNOWN}; another holder may have run meanwhile"
                ),
            )),
            Err(error) => {
                let ttl = human(self.options.ttl);
                self.output.error(format!(
                    "the lock could not be given back and ends by itself within {ttl}: {error}"
                ));
                Ok(ended.status)
            }
        }
    }
}
