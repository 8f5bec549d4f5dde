//! Calls with a deadline, a login if the cluster has users, and a move to another member after a failure.

use std::sync::Arc;

use prost::Message;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::error::{self, Fault, Finding, Rpc};
use crate::members::{Loan, Members};
use crate::service::{Service, paths};
use crate::wire::{AuthenticateRequest, AuthenticateResponse, TxnRequest, TxnResponse};

/// Makes calls.
pub(crate) struct Client {
    members: Arc<Members>,
    login: Option<Login>,
}

/// A user of the cluster, and the token of its last login.
pub(crate) struct Login {
    request: AuthenticateRequest,
    /// The token, and how many logins there were.
    token: Mutex<(Option<Token>, u64)>,
}

/// `None` if the cluster has no users.
pub(crate) type Token = Option<MetadataValue<Ascii>>;

impl Login {
    pub(crate) fn new(name: String, password: String) -> Self {
        Self { request: AuthenticateRequest { name, password }, token: Mutex::default() }
    }
}

impl Client {
    pub(crate) fn new(members: Arc<Members>, login: Option<Login>) -> Self {
        Self { members, login }
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Carries out a transaction.
    pub(crate) async fn txn(
        &self,
        rpc: Rpc,
        txn: &TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Fault> {
        self.call(rpc, deadline, |service, token| {
            let request = request(txn.clone(), token, Some(deadline));
            async move { service.txn(request).await }
        })
        .await
    }

    /// A call of [`paths`] whose request is empty.
    pub(crate) async fn ask<A>(&self, path: &'static str, deadline: Instant) -> Result<A, Fault>
    where
        A: Message + Default + 'static,
    {
        self.call(Rpc::Read, deadline, |service, token| {
            let request = request((), token, Some(deadline));
            async move { service.ask(path, request).await }
        })
        .await
    }

    /// The token for a call that lasts, such as a watch.
    pub(crate) async fn token(&self, service: &Service) -> Result<Token, Fault> {
        Ok(self.numbered_token(service).await?.0)
    }

    async fn call<T, F>(
        &self,
        rpc: Rpc,
        deadline: Instant,
        call: impl Fn(Service, Token) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let loan = self.members.lend();
        let calling = self.logged_in(rpc, &loan, call);
        let answer = timeout_at(deadline, calling).await;
        let answer = answer.unwrap_or_else(|_| Err(error::timed_out(rpc)));
        match &answer {
            Ok(_) => self.members.hears(),
            Err(fault) => self.members.act_on(fault, &loan),
        }
        answer
    }

    /// Makes a call, once more if the token has expired or the member has forgotten it in a restart.
    async fn logged_in<T, F>(
        &self,
        rpc: Rpc,
        loan: &Loan,
        call: impl Fn(Service, Token) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let (token, number) = self.numbered_token(&loan.service).await?;
        let fault = match call(loan.service.clone(), token).await {
            Ok(answer) => return Ok(answer),
            Err(status) => error::from_status(&status, rpc),
        };
        match &self.login {
            Some(login) if fault.finding == Some(Finding::TokenRefused) => {
                login.forget(number).await;
                let token = self.token(&loan.service).await?;
                let answer = call(loan.service.clone(), token).await;
                answer.map_err(|status| error::from_status(&status, rpc))
            }
            _ => Err(fault),
        }
    }

    /// The token, after a login if there is none, and the number of that login.
    async fn numbered_token(&self, service: &Service) -> Result<(Token, u64), Fault> {
        let Some(login) = &self.login else { return Ok((None, 0)) };
        // Callers wait here for one login.
        let mut known = login.token.lock().await;
        let (token, number) = &mut *known;
        if token.is_none() {
            *token = Some(login.log_in(service).await?);
            *number += 1;
        }
        Ok((token.clone().flatten(), *number))
    }
}

impl Login {
    async fn log_in(&self, service: &Service) -> Result<Token, Fault> {
        let request = Request::new(self.request.clone());
        let answer = service.ask::<_, AuthenticateResponse>(paths::AUTHENTICATE, request).await;
        let token = match answer.map_err(|status| error::from_status(&status, Rpc::Read)) {
            Ok(answer) => answer.token,
            Err(fault) if fault.finding == Some(Finding::NoUsers) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let token = token.parse::<MetadataValue<Ascii>>();
        let mut token = token.map_err(|_| error::unintelligible("the token is not ASCII"))?;
        token.set_sensitive(true);
        Ok(Some(token))
    }

    /// Forgets the token of this login.
    async fn forget(&self, number: u64) {
        let mut known = self.token.lock().await;
        if known.1 == number {
            known.0 = None;
        }
    }
}

/// A request that only a member with a leader serves. The member stops at the deadline as well.
pub(crate) fn request<M>(message: M, token: Token, deadline: Option<Instant>) -> Request<M> {
    let mut request = Request::new(message);
    if let Some(deadline) = deadline {
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    }
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}
