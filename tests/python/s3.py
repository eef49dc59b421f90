"""An S3 server (moto) that checks signatures, on a free port of 127.0.0.1.

Arguments: nothing, or a certificate and its key. Prints a line of JSON when it is ready, with its URL and credentials that it
accepts, and stops when its stdin closes.
"""

import json
import os
import sys
import threading

# These requests are not authenticated: they create the user and the bucket.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"
for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
    os.environ[name] = "not-checked"
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}

tls = tuple(sys.argv[1:3]) or None
application = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", 0, application, threaded=True, ssl_context=tls)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"

iam = boto3.client("iam", endpoint_url=url, verify=False)
iam.create_user(UserName="backup")
iam.put_user_policy(UserName="backup", PolicyName="all", PolicyDocument=json.dumps(POLICY))
key = iam.create_access_key(UserName="backup")["AccessKey"]
boto3.client("s3", endpoint_url=url, verify=False).create_bucket(Bucket="backups")

print(json.dumps({"url": url, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
sys.stdin.read()
