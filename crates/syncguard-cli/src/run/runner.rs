//! The command under a held lock.

use syncguard::Held;

use super::job::Job;
use super::lock_file::LockFile;
use super::options::Options;
use super::program::Program;
use super::supervise::{Ended, allowed_time, supervise};
use crate::exit::Failure;
use crate::output::Output;
use crate::signals::Signals;
use crate::store::{Store, without_password};

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
        let file = self.store.file().and_then(LockFile::at);
        let loss_action = self.options.loss_action();
        let allowed = allowed_time(held, loss_action);
        let arguments = self.options.arguments();
        let job = Job::start(self.program, arguments, &environment, allowed).await?;
        supervise(job, held, &loss_action, file, signals, self.output).await
    }
}
