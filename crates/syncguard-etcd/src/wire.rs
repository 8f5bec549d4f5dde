//! The messages of etcd's API that locks need, with the tags of `rpc.proto`, `kv.proto` and `auth.proto` of etcd 3.4. Fields
//! that locks do not use are left out: the protocol skips fields that a reader does not know.

#![allow(missing_docs, reason = "the names are etcd's")]
#![allow(unreachable_pub, reason = "the simulation reads and writes the messages")]

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    /// The revision of the store when the request was applied.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Empty for the one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 0 for the present one.
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// There are more keys than the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

/// Changes have answers too, without anything in them that locks need.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// A condition of a transaction: always an equality here, which is `result` 0.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// [`MOD_REVISION`] or [`VALUE`].
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Target", tags = "6, 7")]
    pub target_union: Option<Target>,
}

pub const MOD_REVISION: i32 = 2;
pub const VALUE: i32 = 3;

#[derive(Clone, PartialEq, Oneof)]
pub enum Target {
    /// 0 for a key that is absent.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

/// The member carries out `success` as one step if each condition in `compare` holds, and else `failure`.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    #[prost(oneof = "WatchUnion", tags = "1, 2, 3")]
    pub request_union: Option<WatchUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
    /// Asks for a sign of life.
    #[prost(message, tag = "3")]
    Progress(()),
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int32, repeated, tag = "5")]
    pub filters: Vec<i32>,
    #[prost(int64, tag = "7")]
    pub watch_id: i64,
}

/// A filter: no events of writes.
pub const NO_PUT: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// 0 for a write, [`DELETE`] for a deletion.
    #[prost(int32, tag = "1")]
    pub r#type: i32,
}

pub const DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = "2")]
    pub version: String,
    /// The size of the database on the disk, in bytes.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The id of the leader; 0 without one.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Member {
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmMember {
    /// 1: no space, 2: corrupt.
    #[prost(int32, tag = "2")]
    pub alarm: i32,
}
