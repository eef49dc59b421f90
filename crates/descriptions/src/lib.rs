//! Descriptions of every type and field, for explain and OpenAPI.
