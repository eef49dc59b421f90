use crate::Value;
pub fn convert(api_version: &str, _kind: &str, v: &mut Value) -> Result<(), String> {
    v.set(&["apiVersion"], api_version);
    Ok(())
}
