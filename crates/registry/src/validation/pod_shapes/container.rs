//! Containers and what they are made of, as upstream shows them.

use crate::validation::go_shape::{Shape, any, flag, list, number, part, pointer, quantity, text};

pub(crate) static APP_ARMOR_PROFILE: Shape =
    &[text("Type", "type"), any("LocalhostProfile", "localhostProfile")];

pub(crate) static CAPABILITIES: Shape = &[any("Add", "add"), any("Drop", "drop")];

pub(crate) static CONFIG_MAP_ENV_SOURCE: Shape = &[text("Name", "name"), any("Optional", "optional")];

pub(crate) static CONFIG_MAP_KEY_SELECTOR: Shape =
    &[text("Name", "name"), text("Key", "key"), any("Optional", "optional")];

pub(crate) static CONTAINER: Shape = &[
    text("Name", "name"),
    text("Image", "image"),
    any("Command", "command"),
    any("Args", "args"),
    text("WorkingDir", "workingDir"),
    list("Ports", "ports", CONTAINER_PORT),
    list("EnvFrom", "envFrom", ENV_FROM_SOURCE),
    list("Env", "env", ENV_VAR),
    part("Resources", "resources", RESOURCE_REQUIREMENTS),
    list("ResizePolicy", "resizePolicy", CONTAINER_RESIZE_POLICY),
    any("RestartPolicy", "restartPolicy"),
    list("RestartPolicyRules", "restartPolicyRules", CONTAINER_RESTART_RULE),
    list("VolumeMounts", "volumeMounts", VOLUME_MOUNT),
    list("VolumeDevices", "volumeDevices", VOLUME_DEVICE),
    pointer("LivenessProbe", "livenessProbe", PROBE),
    pointer("ReadinessProbe", "readinessProbe", PROBE),
    pointer("StartupProbe", "startupProbe", PROBE),
    pointer("Lifecycle", "lifecycle", LIFECYCLE),
    text("TerminationMessagePath", "terminationMessagePath"),
    text("TerminationMessagePolicy", "terminationMessagePolicy"),
    text("ImagePullPolicy", "imagePullPolicy"),
    pointer("SecurityContext", "securityContext", SECURITY_CONTEXT),
    flag("Stdin", "stdin"),
    flag("StdinOnce", "stdinOnce"),
    flag("TTY", "tty"),
];

pub(crate) static CONTAINER_PORT: Shape = &[
    text("Name", "name"),
    number("HostPort", "hostPort"),
    number("ContainerPort", "containerPort"),
    text("Protocol", "protocol"),
    text("HostIP", "hostIP"),
];

pub(crate) static CONTAINER_RESIZE_POLICY: Shape =
    &[text("ResourceName", "resourceName"), text("RestartPolicy", "restartPolicy")];

pub(crate) static CONTAINER_RESTART_RULE: Shape =
    &[text("Action", "action"), pointer("ExitCodes", "exitCodes", CONTAINER_RESTART_RULE_ON_EXIT_CODES)];

pub(crate) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Shape =
    &[text("Operator", "operator"), any("Values", "values")];

pub(crate) static ENV_FROM_SOURCE: Shape = &[
    text("Prefix", "prefix"),
    pointer("ConfigMapRef", "configMapRef", CONFIG_MAP_ENV_SOURCE),
    pointer("SecretRef", "secretRef", SECRET_ENV_SOURCE),
];

pub(crate) static ENV_VAR: Shape =
    &[text("Name", "name"), text("Value", "value"), pointer("ValueFrom", "valueFrom", ENV_VAR_SOURCE)];

pub(crate) static ENV_VAR_SOURCE: Shape = &[
    pointer("FieldRef", "fieldRef", OBJECT_FIELD_SELECTOR),
    pointer("ResourceFieldRef", "resourceFieldRef", RESOURCE_FIELD_SELECTOR),
    pointer("ConfigMapKeyRef", "configMapKeyRef", CONFIG_MAP_KEY_SELECTOR),
    pointer("SecretKeyRef", "secretKeyRef", SECRET_KEY_SELECTOR),
    pointer("FileKeyRef", "fileKeyRef", FILE_KEY_SELECTOR),
];

pub(crate) static EPHEMERAL_CONTAINER: Shape = &[
    text("Name", "name"),
    text("Image", "image"),
    any("Command", "command"),
    any("Args", "args"),
    text("WorkingDir", "workingDir"),
    list("Ports", "ports", CONTAINER_PORT),
    list("EnvFrom", "envFrom", ENV_FROM_SOURCE),
    list("Env", "env", ENV_VAR),
    part("Resources", "resources", RESOURCE_REQUIREMENTS),
    list("ResizePolicy", "resizePolicy", CONTAINER_RESIZE_POLICY),
    any("RestartPolicy", "restartPolicy"),
    list("RestartPolicyRules", "restartPolicyRules", CONTAINER_RESTART_RULE),
    list("VolumeMounts", "volumeMounts", VOLUME_MOUNT),
    list("VolumeDevices", "volumeDevices", VOLUME_DEVICE),
    pointer("LivenessProbe", "livenessProbe", PROBE),
    pointer("ReadinessProbe", "readinessProbe", PROBE),
    pointer("StartupProbe", "startupProbe", PROBE),
    pointer("Lifecycle", "lifecycle", LIFECYCLE),
    text("TerminationMessagePath", "terminationMessagePath"),
    text("TerminationMessagePolicy", "terminationMessagePolicy"),
    text("ImagePullPolicy", "imagePullPolicy"),
    pointer("SecurityContext", "securityContext", SECURITY_CONTEXT),
    flag("Stdin", "stdin"),
    flag("StdinOnce", "stdinOnce"),
    flag("TTY", "tty"),
    text("TargetContainerName", "targetContainerName"),
];

pub(crate) static EXEC_ACTION: Shape = &[any("Command", "command")];

pub(crate) static FILE_KEY_SELECTOR: Shape = &[
    text("VolumeName", "volumeName"),
    text("Path", "path"),
    text("Key", "key"),
    any("Optional", "optional"),
];

pub(crate) static GRPC_ACTION: Shape =
    &[number("Port", "port"), any("Service", "service"), any("Mode", "mode")];

pub(crate) static HTTP_GET_ACTION: Shape = &[
    text("Path", "path"),
    number("Port", "port"),
    text("Host", "host"),
    text("Scheme", "scheme"),
    list("HTTPHeaders", "httpHeaders", HTTP_HEADER),
    any("Protocol", "protocol"),
];

pub(crate) static HTTP_HEADER: Shape = &[text("Name", "name"), text("Value", "value")];

pub(crate) static LIFECYCLE: Shape = &[
    pointer("PostStart", "postStart", LIFECYCLE_HANDLER),
    pointer("PreStop", "preStop", LIFECYCLE_HANDLER),
    any("StopSignal", "stopSignal"),
];

pub(crate) static LIFECYCLE_HANDLER: Shape = &[
    pointer("Exec", "exec", EXEC_ACTION),
    pointer("HTTPGet", "httpGet", HTTP_GET_ACTION),
    pointer("TCPSocket", "tcpSocket", TCP_SOCKET_ACTION),
    pointer("Sleep", "sleep", SLEEP_ACTION),
];

pub(crate) static OBJECT_FIELD_SELECTOR: Shape =
    &[text("APIVersion", "apiVersion"), text("FieldPath", "fieldPath")];

pub(crate) static PROBE: Shape = &[
    pointer("Exec", "exec", EXEC_ACTION),
    pointer("HTTPGet", "httpGet", HTTP_GET_ACTION),
    pointer("TCPSocket", "tcpSocket", TCP_SOCKET_ACTION),
    pointer("GRPC", "grpc", GRPC_ACTION),
    number("InitialDelaySeconds", "initialDelaySeconds"),
    number("TimeoutSeconds", "timeoutSeconds"),
    number("PeriodSeconds", "periodSeconds"),
    number("SuccessThreshold", "successThreshold"),
    number("FailureThreshold", "failureThreshold"),
    any("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds"),
];

pub(crate) static RESOURCE_CLAIM: Shape = &[text("Name", "name"), text("Request", "request")];

pub(crate) static RESOURCE_FIELD_SELECTOR: Shape =
    &[text("ContainerName", "containerName"), text("Resource", "resource"), quantity("Divisor", "divisor")];

pub(crate) static RESOURCE_REQUIREMENTS: Shape =
    &[any("Limits", "limits"), any("Requests", "requests"), list("Claims", "claims", RESOURCE_CLAIM)];

pub(crate) static SE_LINUX_OPTIONS: Shape =
    &[text("User", "user"), text("Role", "role"), text("Type", "type"), text("Level", "level")];

pub(crate) static SECCOMP_PROFILE: Shape =
    &[text("Type", "type"), any("LocalhostProfile", "localhostProfile")];

pub(crate) static SECRET_ENV_SOURCE: Shape = &[text("Name", "name"), any("Optional", "optional")];

pub(crate) static SECRET_KEY_SELECTOR: Shape =
    &[text("Name", "name"), text("Key", "key"), any("Optional", "optional")];

pub(crate) static SECURITY_CONTEXT: Shape = &[
    pointer("Capabilities", "capabilities", CAPABILITIES),
    any("Privileged", "privileged"),
    pointer("SELinuxOptions", "seLinuxOptions", SE_LINUX_OPTIONS),
    pointer("WindowsOptions", "windowsOptions", WINDOWS_SECURITY_CONTEXT_OPTIONS),
    any("RunAsUser", "runAsUser"),
    any("RunAsGroup", "runAsGroup"),
    any("RunAsNonRoot", "runAsNonRoot"),
    any("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    any("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    any("ProcMount", "procMount"),
    pointer("SeccompProfile", "seccompProfile", SECCOMP_PROFILE),
    pointer("AppArmorProfile", "appArmorProfile", APP_ARMOR_PROFILE),
];

pub(crate) static SLEEP_ACTION: Shape = &[number("Seconds", "seconds")];

pub(crate) static TCP_SOCKET_ACTION: Shape = &[number("Port", "port"), text("Host", "host")];

pub(crate) static VOLUME_DEVICE: Shape = &[text("Name", "name"), text("DevicePath", "devicePath")];

pub(crate) static VOLUME_MOUNT: Shape = &[
    text("Name", "name"),
    flag("ReadOnly", "readOnly"),
    any("RecursiveReadOnly", "recursiveReadOnly"),
    text("MountPath", "mountPath"),
    text("SubPath", "subPath"),
    any("MountPropagation", "mountPropagation"),
    text("SubPathExpr", "subPathExpr"),
    any("BindMountOptions", "bindMountOptions"),
];

pub(crate) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Shape = &[
    any("GMSACredentialSpecName", "gmsaCredentialSpecName"),
    any("GMSACredentialSpec", "gmsaCredentialSpec"),
    any("RunAsUserName", "runAsUserName"),
    any("HostProcess", "hostProcess"),
];
